//! Draws numbers and keys of the sequence `orders`. The argument says where the database is:
//! `cargo run --package hilo-client --example quickstart -- "host=/run/postgresql dbname=shop"`.

use hilo_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = std::env::args().nth(1).ok_or("which database?")?;
    let client = Client::builder(database.parse()?).name("sorter-7").connect().await?;
    let orders = client.sequence("orders");
    let id = orders.next().await?; // 1, from memory
    let key = orders.next_key().await?; // "orders/2"
    let batch = orders.next_range(1000).await?; // a thousand consecutive numbers
    println!("{id} {key} {} to {}", batch.first, batch.last);
    client.shutdown().await?; // the server serves the rest
    Ok(())
}
