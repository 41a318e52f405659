//! `hilo_report` returns a page that shows a role what the views show it. Anybody can look at it,
//! and nothing in the database can turn it into anything else.

mod content;
mod drawn;
mod parts;
mod picture;
mod robust;

use hilo_tests::{Client, ClientExt, Cluster};

/// Names that would do something in HTML, SVG, CSS or the terminal, if they were more than text. None has a character that
/// a sequence's name may not have.
const HOSTILE: [&str; 9] = [
    "<script>document.title = 'owned'</script>",
    "\"><img src=x onerror=\"document.title = 'owned'\">",
    "' onmouseover='document.title=1",
    "]]></style></title><svg onload=alert(1)>",
    "&lt;b&gt; &amp; &#0; &unknown;",
    "</td></tr></table><h1>gone",
    "url(http://example.com/x.png) @import expression(alert(1))",
    "\u{202E}txet desrever\u{2066} and more",
    "  two  spaces 漢字 👪 Größe  ",
];

fn page(client: &mut Client) -> String {
    client.one("SELECT hilo_report()")
}

/// The page without its markup, with its references resolved.
fn visible_text(page: &str) -> String {
    let body = page.split_once("</style>").expect("a page has a style").1;
    let mut text = String::new();
    for part in body.split('<') {
        text += part.split_once('>').map_or(part, |(_, text)| text);
        text.push('\n');
    }
    resolve(&text)
}

/// A text of the page with its references resolved.
fn resolve(text: &str) -> String {
    let mut parts = text.split("&#");
    let mut resolved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(';').expect("a reference ends");
        resolved.extend(number.parse().ok().and_then(char::from_u32));
        resolved += rest;
    }
    // The ampersand is last, so that nothing is resolved twice.
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .into_iter()
        .fold(resolved, |text, (name, plain)| text.replace(name, plain))
}

/// The part of the page with this id.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let part = page.split("\n<section id=\"").find(|part| part.starts_with(id));
    part.unwrap_or_else(|| panic!("no {id} in {page}"))
}

/// The headings of the rows of a part: names of sequences, holders, reasons.
fn headings(page: &str, id: &str) -> Vec<String> {
    let rows = section(page, id).split("<th scope=\"row\">").skip(1);
    rows.map(|row| {
        let name = row.split_once("<bdi>").and_then(|(_, rest)| rest.split_once("</bdi>"));
        resolve(name.map_or("", |(name, _)| name))
    })
    .collect()
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A shop with something to see in each part of the page.
fn shop(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders', block_size => 100), hilo_create('idle'), hilo_create('parcels');
         SELECT hilo_create('tickets', data_type => 'smallint', block_size => 100);
         SELECT hilo_create('bills', gapless => true)",
    );
    // In another transaction, which does not serve itself.
    client.run(
        "SELECT hilo_nextval('orders') FROM generate_series(1, 250);
         SELECT hilo_nextval('tickets') FROM generate_series(1, 31500);
         SELECT hilo_lease('parcels', 1000, 'sorter-7', '1 hour'), hilo_lease('parcels', 500, 'sorter-8');
         SELECT hilo_lease('orders', 70, 'lost');
         SELECT hilo_lease_revoke(holder => 'lost')",
    );
    client
}
