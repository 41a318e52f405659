//! Draws ten numbers with a state file, and stays until it is killed or gets a line. Started again,
//! it goes on.

use hilo_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().unwrap_or_default();
    let path = arguments.next().unwrap_or_else(|| "ids".into());
    let client = Client::builder(database.parse()?).state(path).connect().await?;
    let orders = client.sequence("orders");
    for _ in 0..10 {
        println!("{}", orders.next().await?);
    }
    std::io::stdin().read_line(&mut String::new())?;
    client.shutdown().await?;
    Ok(())
}
