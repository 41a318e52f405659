//! hilo with rust-postgres and tokio-postgres. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

use std::collections::HashSet;
use std::env::var;
use std::error::Error;

use postgres::types::ToSql;
use postgres::{Client, NoTls};
use tokio_postgres::Config;

fn main() -> Result<(), Box<dyn Error>> {
    let config = config()?;
    let mut client = postgres::Config::from(config.clone()).connect(NoTls)?;
    let mut ids = blocking(&mut client)?;
    let runtime = tokio::runtime::Runtime::new()?;
    ids.extend(runtime.block_on(tasks(config))?);
    let unique: HashSet<&i64> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (1302, 1302));
    println!("rust-postgres and tokio-postgres: 1302 values, none twice");
    Ok(())
}

fn config() -> Result<Config, Box<dyn Error>> {
    let mut config = Config::new();
    config.host(&var("PGHOST")?).port(var("PGPORT")?.parse()?);
    config.user(&var("PGUSER")?).dbname(&var("PGDATABASE")?);
    Ok(config)
}

fn blocking(client: &mut Client) -> Result<Vec<i64>, Box<dyn Error>> {
    client.batch_execute(
        "SELECT hilo_create('orders', if_not_exists => true);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)",
    )?;

    // One row.
    let insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id";
    let ada: i64 = client.query_one(insert, &[&"Ada"])?.get(0);

    // Many rows in one statement, with their ids.
    let names: Vec<String> = (0..1000).map(|number| format!("bulk {number}")).collect();
    let bulk =
        "INSERT INTO orders (customer) SELECT * FROM unnest($1::text[]) RETURNING id, customer";
    let rows = client.query(bulk, &[&names])?;
    assert!(rows.iter().map(|row| row.get::<_, &str>(1)).eq(&names));

    // A name is of type hilo_sequence, which a string is not: a cast makes the parameter text.
    let name: &(dyn ToSql + Sync) = &"orders";
    client.query_one("SELECT hilo_nextval($1)", &[name]).expect_err("the driver refuses it");
    let drawn: i64 = client.query_one("SELECT hilo_nextval($1::text)", &[name])?.get(0);
    let created =
        client.query_one("SELECT hilo_create('invoices', if_not_exists => true)::text", &[])?;
    assert_eq!(created.get::<_, &str>(0), "invoices");

    // The ids first: an i64 is a bigint.
    let taken = "SELECT generate_series(first, last, increment) FROM hilo_nextrange($1::text, $2)";
    let ahead: Vec<i64> =
        client.query(taken, &[name, &100_i64])?.iter().map(|row| row.get(0)).collect();
    client.execute(
        "INSERT INTO orders SELECT id, 'ahead' FROM unnest($1::bigint[]) AS id",
        &[&ahead],
    )?;

    let rows = rows.iter().map(|row| row.get(0));
    Ok([ada, drawn].into_iter().chain(rows).chain(ahead).collect())
}

/// 200 tasks that insert through one connection, whose statements tokio-postgres pipelines.
async fn tasks(config: Config) -> Result<Vec<i64>, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let client = std::sync::Arc::new(client);
    let insert = client.prepare("INSERT INTO orders (customer) VALUES ($1) RETURNING id").await?;
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let (client, insert) = (client.clone(), insert.clone());
            tokio::spawn(
                async move { client.query_one(&insert, &[&format!("task {number}")]).await },
            )
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.expect("a task ended early")?.get(0));
    }
    Ok(ids)
}
