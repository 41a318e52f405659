//! The picture of the report in docs/reference.md.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hilo_tests::browser::Browser;
use hilo_tests::{ClientExt, Cluster, Ends, LONG, wait_until};

use super::drawn::{open, pixels};

/// The reference shows a picture of it, which a page can afford. With UPDATE_PICTURE it is drawn again, from a cluster that has been
/// under load for longer than the window.
#[test]
fn the_picture_of_the_reference() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images/report.png");
    if std::env::var("UPDATE_PICTURE").is_ok() {
        let program = Browser::program().expect("a picture needs a browser");
        fs::write(&file, busy_shop(&program)).expect("cannot write the picture");
    }
    let picture = fs::read(&file).expect("there is a picture");
    assert!(picture.starts_with(b"\x89PNG") && picture.len() <= 200_000, "{} bytes", picture.len());
}

/// A picture of a shop in which tables fill, holders come and go, and little is wrong.
fn busy_shop(program: &Path) -> Vec<u8> {
    let cluster = Cluster::builder()
        .config("hilo.max_slice_size", "512")
        .config("fsync", "on")
        .config("full_page_writes", "on")
        .start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE shop");
    let mut client = cluster.connect("shop");
    client.run(
        "CREATE EXTENSION hilo;
         SELECT hilo_create(name) FROM unnest(ARRAY['orders', 'customers', 'parcels', 'events', 'tenants/42/orders']) AS name;
         SELECT hilo_create('bills', gapless => true), hilo_create('returns', max_value => 9999999, block_size => 5000);
         SELECT hilo_create('vouchers', data_type => 'smallint', block_size => 200), hilo_create('audit', ordered => true);
         SELECT hilo_nextval('vouchers') FROM generate_series(1, 28500);
         SELECT hilo_nextval('returns') FROM generate_series(1, 4200000)",
    );
    for name in
        ["orders", "customers", "parcels", "events", "bills", "vouchers", "audit", "returns"]
    {
        client.run(&format!(
            "CREATE TABLE {name} (id bigint PRIMARY KEY DEFAULT hilo_nextval('{name}'))"
        ));
    }
    client.run("CREATE TABLE tenant_orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('tenants/42/orders'))");
    client.run("INSERT INTO bills SELECT FROM generate_series(1, 1200)");
    // The gaps that a crash, an alteration and holders that did not come back have left, over some
    // weeks.
    client.meddle(
        "INSERT INTO _hilo.hilo_gap SELECT id, 0, 1, n, n + size - 1, size, 1, reason, now() - days * interval '1 day'
           FROM (VALUES ('orders', 500, 'crash', 26), ('events', 2100, 'crash', 26), ('parcels', 320, 'expired', 21),
                        ('parcels', 640, 'expired', 17), ('orders', 1800, 'discarded', 12), ('parcels', 250, 'expired', 9),
                        ('customers', 900, 'altered', 7), ('parcels', 410, 'revoked', 3), ('parcels', 180, 'expired', 1))
                AS gap (name, size, reason, days)
           JOIN _hilo.hilo_definition USING (name), LATERAL (SELECT days * 1000000 AS n) AS place",
    );
    for (holder, n) in
        [("sorter-7 (Hamburg)", 4000), ("sorter-8 (Łódź)", 2500), ("importer", 60000)]
    {
        client.run(&format!("SELECT hilo_lease('parcels', {n}, '{holder}', '6 hours')"));
    }
    let picture = under_load(&cluster, || {
        let seen = "SELECT count(*) FROM hilo_stat_rates WHERE name = 'orders' AND since < now() - interval '62 s'";
        wait_until("the window is full", 3 * LONG, || client.one::<i64>(seen) > 0);
        let mut browser = open(program, &cluster, &mut client);
        let height =
            browser.evaluate("document.querySelector('#gaps').getBoundingClientRect().bottom + 8");
        small(&browser.screenshot(height.as_f64().expect("it is a number")))
    });
    cluster.finish();
    picture
}

/// Does `work` while clients draw, each with its own pace.
fn under_load<T>(cluster: &Cluster, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for (name, size, pause, wave) in [
            ("orders", 40, 20, 9.0),
            ("orders", 25, 30, 23.0),
            ("events", 900, 25, 31.0),
            ("events", 400, 60, 5.0),
            ("customers", 3, 120, 17.0),
            ("parcels", 60, 90, 13.0),
            ("tenants/42/orders", 8, 200, 41.0_f64),
            ("audit", 12, 45, 27.0),
            ("vouchers", 1, 4000, 10.0),
            ("returns", 2, 400, 20.0),
        ] {
            let over = &over;
            scope.spawn(move || {
                let mut client = cluster.connect("shop");
                let began = Instant::now();
                while !over.load(Relaxed) {
                    let now = began.elapsed().as_secs_f64();
                    let count = f64::from(size) * (1.2 + (now / wave * 6.0).sin()).max(0.1);
                    client.run(&format!(
                        "SELECT hilo_nextval('{name}') FROM generate_series(1, {})",
                        count as i64 + 1
                    ));
                    thread::sleep(Duration::from_millis(pause));
                }
            });
        }
        work()
    })
}

/// The picture with as few colours as a text and some bars need.
fn small(png: &[u8]) -> Vec<u8> {
    let ((width, height), pixels) = pixels(png);
    let rounded = |pixel: &[u8; 3]| pixel.map(|channel| channel / 16);
    // Each colour with how often it was seen; of those that are nearly equal, the most frequent one is taken.
    let mut seen: HashMap<[u8; 3], u32> = HashMap::new();
    pixels.iter().for_each(|pixel| *seen.entry(*pixel).or_default() += 1);
    let mut best: HashMap<[u8; 3], [u8; 3]> = HashMap::new();
    for pixel in seen.keys() {
        let kept = best.entry(rounded(pixel)).or_insert(*pixel);
        if (seen[pixel], pixel) > (seen[kept], kept) {
            *kept = *pixel;
        }
    }
    let palette: Vec<[u8; 3]> = best.keys().copied().collect();
    assert!(palette.len() <= 256, "{} colours", palette.len());
    let numbers: HashMap<[u8; 3], u8> = (0..=255).zip(&palette).map(|(at, of)| (*of, at)).collect();
    let mut written = Vec::new();
    let mut encoder = png::Encoder::new(&mut written, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(palette.iter().flat_map(|of| best[of]).collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().expect("it can be written");
    let indexes: Vec<u8> = pixels.iter().map(|pixel| numbers[&rounded(pixel)]).collect();
    writer.write_image_data(&indexes).expect("it can be written");
    writer.finish().expect("it can be written");
    written
}
