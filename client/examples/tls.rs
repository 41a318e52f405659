//! Draws a number over TLS, from a server whose certificate one has signed that is in a file:
//! `cargo run --package hilo-client --features native-tls,rustls --example tls -- \
//! "host=db.example.com dbname=shop sslmode=require" ca.pem rustls`.

use hilo_client::{Client, tls};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, authority, kind] = &arguments[..] else {
        return Err("which database, whose certificate, and rustls or native-tls?".into());
    };
    let authority = std::fs::read(authority)?;
    let builder = Client::builder(database.parse()?);
    let client = match kind.as_str() {
        "rustls" => builder.connect_with(tls::rustls(Some(&authority))?).await?,
        _ => builder.connect_with(tls::native_tls(Some(&authority))?).await?,
    };
    println!("{}", client.sequence("orders").next().await?);
    client.shutdown().await?;
    Ok(())
}
