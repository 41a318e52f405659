//! The page in a browser: what is drawn, for whom, and that nothing runs.

use std::collections::HashSet;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use hilo_tests::browser::Browser;
use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};
use serde_json::{Value, json};

use super::{HOSTILE, page, quote, shop};

/// A cluster with something to see under hostile names, and a browser that has opened its page, 1280 pixels wide. None if
/// there is no browser.
fn open_page() -> Option<(Cluster, Browser)> {
    let program = Browser::program()?;
    let cluster = Cluster::builder()
        .config("hilo.sample_interval", "100ms")
        .config("hilo.window", "4s")
        .config("hilo.server_prefix", "<script>document.title = 'owned'</script>")
        .start_with_hilo();
    let mut client = shop(&cluster);
    for name in HOSTILE {
        let name = quote(name);
        client.run(&format!("SELECT hilo_create({name}), hilo_lease({name}, 10, {name})"));
        client.run(&format!("SELECT hilo_nextval({name}) FROM generate_series(1, 50)"));
    }
    // Beside the lease, so that a bar has shares of several kinds.
    client.run("SELECT hilo_lease('orders', 40, 'sorter-9')");
    wait_until("there are rates", LONG, || {
        client.run("SELECT hilo_nextval('orders') FROM generate_series(1, 10)");
        client.one::<i64>("SELECT count(*) FROM hilo_stat_rates WHERE name = 'orders'") >= 4
    });
    let browser = open(&program, &cluster, &mut client);
    Some((cluster, browser))
}

/// Writes the page to a file, and opens it.
pub fn open(program: &Path, cluster: &Cluster, client: &mut Client) -> Browser {
    let file = cluster.file("report.html");
    fs::write(&file, page(client)).expect("cannot write the page");
    let mut browser = Browser::start(program, &cluster.file("browser"));
    browser.open(&file, 1280);
    browser
}

/// A list that an expression makes of the elements that match a selector.
fn each(browser: &mut Browser, selector: &str, expression: &str) -> Vec<Value> {
    let asked = format!("[...document.querySelectorAll({selector:?})].map(e => {expression})");
    browser.evaluate(&asked).as_array().expect("it is a list").clone()
}

/// No script of a hostile name runs, no element comes out of it, and each name is drawn as it is.
#[test]
fn hostile_names_stay_text() {
    let Some((cluster, mut browser)) = open_page() else { return };
    assert_eq!(browser.evaluate("document.title"), "hilo: postgres");
    assert_eq!(
        browser
            .evaluate("document.scripts.length + document.images.length + document.links.length"),
        0
    );
    let attributes = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())";
    let names = browser.evaluate(&format!("[...new Set({attributes})].sort().join()"));
    assert_eq!(
        names,
        "aria-hidden,aria-label,aria-labelledby,charset,class,content,d,data-label,height,http-equiv,id,lang,name,\
         preserveAspectRatio,role,scope,viewBox,width,x,y"
    );
    let drawn = each(&mut browser, ".sequences tbody th > bdi", "e.textContent");
    for name in HOSTILE {
        let name = name.replace('\u{202E}', "[U+202E]").replace('\u{2066}', "[U+2066]");
        assert!(drawn.iter().any(|drawn| *drawn == *name), "{name} is not among {drawn:?}");
    }
    // It asked for no file but the page, and its policy had nothing to prevent.
    let told = |method: &str| browser.told.iter().filter(|(told, _)| told == method).count();
    assert_eq!(told("Network.requestWillBeSent"), 1, "{:?}", browser.told);
    for method in ["Log.entryAdded", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"] {
        assert_eq!(told(method), 0, "{:?}", browser.told);
    }
    cluster.finish();
}

/// Everything has its place at each width: nothing is wider than the page, and no picture or cell is empty of space.
#[test]
fn it_fits_at_each_width() {
    let Some((cluster, mut browser)) = open_page() else { return };
    for width in [1280, 768, 400, 320] {
        browser.resize(width);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), width, "{width}");
        // Where rows are blocks, the headings of the columns are there for those who listen.
        let seen = "[...document.querySelectorAll('body *')].filter(e => !e.closest('thead') || innerWidth > 928)";
        let right = format!("Math.max(...{seen}.map(e => e.getBoundingClientRect().right))");
        let right = browser.evaluate(&right).as_f64().expect("it is a number");
        assert!(right <= f64::from(width), "{right} at {width}");
        let sizes = each(
            &mut browser,
            "svg",
            "[e.getBoundingClientRect().width, e.getBoundingClientRect().height]",
        );
        assert!(sizes.len() > 20, "{sizes:?}");
        for size in sizes {
            assert!(
                size[0].as_f64() > Some(60.0) && size[1].as_f64() > Some(5.0),
                "{size} at {width}"
            );
        }
        let headings = each(&mut browser, "h1, h2", "e.innerText");
        let expected = json!([
            "hilo in postgres",
            "What needs attention",
            "Sequences",
            "Gaps",
            "Leases",
            "Settings"
        ]);
        assert_eq!(json!(headings), expected);
        // The names of the columns are beside the figures where the table has no heading.
        let labels = "getComputedStyle(e, '::before').content";
        let labels = each(&mut browser, ".sequences tbody tr:first-child td", labels);
        assert_eq!(labels.contains(&json!("\"Waits\"")), width < 928, "{labels:?} at {width}");
    }
    cluster.finish();
}

/// The bar of a sequence has the shares that the views have, in the colours of the legend, and its line has a course.
#[test]
fn pictures_show_the_figures() {
    let Some((cluster, mut browser)) = open_page() else { return };
    let row = "[...document.querySelectorAll('.sequences tbody tr')].find(e => e.querySelector('bdi').textContent === 'orders')";
    let label =
        browser.evaluate(&format!("{row}.querySelector('td:nth-of-type(2) svg').ariaLabel"));
    let label = label.as_str().expect("it has a label").replace(',', "");
    let [mut sizes, mut widths] = [Vec::new(), Vec::new()];
    for (class, what) in [
        ("tier-slices", "in slices"),
        ("tier-current", "in the current"),
        ("tier-standby", "in standby"),
        ("tier-returned", "returned"),
        ("tier-leased", "leased"),
    ] {
        let Some((before, _)) = label.split_once(&format!(" {what}")) else { continue };
        let size = before.split(' ').next_back().and_then(|size| size.parse::<f64>().ok());
        sizes.push(size.unwrap_or_else(|| panic!("{what}: {label}")));
        let share = format!("{row}.querySelector('rect.{class}')");
        let width = browser.evaluate(&format!("{share}.getBoundingClientRect().width"));
        widths.push(width.as_f64().expect("it is a number"));
        let colours = format!(
            "[getComputedStyle({share}).fill, getComputedStyle(document.querySelector('.legend .{class}')).backgroundColor]"
        );
        let colours = browser.evaluate(&colours);
        assert_eq!(colours[0], colours[1], "{class}");
    }
    assert!(sizes.len() >= 3, "{label}");
    let (whole, bar) = (sizes.iter().sum::<f64>(), widths.iter().sum::<f64>());
    assert!((bar - 7.5 * 16.0).abs() < 10.0, "{widths:?}");
    for (size, width) in sizes.iter().zip(&widths) {
        assert!((size / whole - width / bar).abs() < 0.08, "{sizes:?} are {widths:?}");
    }
    let line = browser.evaluate(&format!("{row}.querySelector('path.line').getTotalLength()"));
    assert!(line.as_f64() > Some(5.0), "{line}");
    let columns = each(&mut browser, ".columns g title", "e.textContent");
    let lost = |said: &&Value| said.as_str().is_some_and(|said| said.ends_with(": 70 revoked"));
    assert_eq!(columns.iter().filter(lost).count(), 1, "{columns:?}");
    let none = |said: &&Value| said.as_str().is_some_and(|said| said.ends_with(": none"));
    assert_eq!(columns.iter().filter(none).count(), columns.len() - 1, "{columns:?}");
    cluster.finish();
}

/// Each text can be read in the dark and in the light: a contrast of at least 4.5, as WCAG asks for.
#[test]
fn it_can_be_read_in_the_dark_and_in_the_light() {
    const CONTRASTS: &str = r#"(() => {
        const number = text => (text.match(/[\d.]+/g) || []).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
            .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
            .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
        const behind = e => {
            for (; e; e = e.parentElement) {
                const colour = number(getComputedStyle(e).backgroundColor);
                if (colour.length === 3 || colour[3] > 0) return colour;
            }
            return [255, 255, 255];
        };
        return [...document.querySelectorAll('body *')]
            .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
            .filter(e => !e.closest('svg'))
            .map(e => {
                const [a, b] = [light(number(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => b - a);
                return [(a + .05) / (b + .05), e.outerHTML.slice(0, 100)];
            });
    })()"#;
    let Some((cluster, mut browser)) = open_page() else { return };
    let mut pictures = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let contrasts = browser.evaluate(CONTRASTS);
        let contrasts = contrasts.as_array().expect("it is a list");
        assert!(contrasts.len() > 100, "{contrasts:?}");
        for contrast in contrasts {
            assert!(contrast[0].as_f64() >= Some(4.5), "{scheme}: {contrast}");
        }
        pictures.push(picture(&mut browser));
    }
    let [light, dark] = &pictures[..] else { unreachable!() };
    assert!(light.brightness > 200.0, "{}", light.brightness);
    assert!(dark.brightness < 70.0, "{}", dark.brightness);
    for picture in [light, dark] {
        assert!(picture.size.0 == 1280 && picture.size.1 > 900, "{:?}", picture.size);
        assert!(picture.colours > 100, "only {} colours", picture.colours);
    }
    cluster.finish();
}

/// Size, colours and mean brightness of what is drawn.
struct Picture {
    size: (u32, u32),
    colours: usize,
    brightness: f64,
}

fn picture(browser: &mut Browser) -> Picture {
    let height = browser.evaluate("document.documentElement.scrollHeight");
    let (size, pixels) = pixels(&browser.screenshot(height.as_f64().expect("it is a number")));
    let colours = pixels.iter().collect::<HashSet<_>>().len();
    let sum: f64 = pixels.iter().flatten().map(|channel| f64::from(*channel)).sum();
    Picture { size, colours, brightness: sum / pixels.len() as f64 / 3.0 }
}

/// The width, the height and the colours of the pixels of a PNG.
pub fn pixels(png: &[u8]) -> ((u32, u32), Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("it is a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it fits")];
    let frame = reader.next_frame(&mut bytes).expect("it has a frame");
    let channels = frame.color_type.samples();
    let pixels = bytes[..frame.buffer_size()].chunks(channels);
    ((frame.width, frame.height), pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
}

/// Printed it is black on white, whatever the screen prefers, with the headings of a table on each page.
#[test]
fn it_can_be_printed() {
    let Some((cluster, mut browser)) = open_page() else { return };
    let dark = json!([{"name": "prefers-color-scheme", "value": "dark"}]);
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print", "features": dark}));
    assert_eq!(
        browser.evaluate("getComputedStyle(document.body).backgroundColor"),
        "rgb(255, 255, 255)"
    );
    assert_eq!(browser.evaluate("getComputedStyle(document.body).color"), "rgb(0, 0, 0)");
    // As wide as A4 between its margins.
    browser.resize(703);
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 703);
    let right = "Math.max(...[...document.querySelectorAll('body *')].map(e => e.getBoundingClientRect().right))";
    let right = browser.evaluate(right).as_f64();
    assert!(right <= Some(703.0), "{right:?}");
    let heading = "getComputedStyle(document.querySelector('.sequences thead')).display";
    assert_eq!(browser.evaluate(heading), "table-header-group");
    let pdf = String::from_utf8_lossy(&browser.print()).into_owned();
    assert!(pdf.starts_with("%PDF-"), "{}", &pdf[..20]);
    let pages = pdf.matches("/Type /Page\n").count();
    assert!((1..=4).contains(&pages), "{pages} pages");
    cluster.finish();
}

/// For those who do not see it: headings, named tables with rows and columns, and named pictures, on a narrow screen too.
#[test]
fn it_can_be_heard() {
    let Some((cluster, mut browser)) = open_page() else { return };
    for width in [1280, 400] {
        browser.resize(width);
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("it is a list").clone();
        let role = |role: &str| -> Vec<&str> {
            let of = nodes
                .iter()
                .filter(|node| node["ignored"] == false && node["role"]["value"] == role);
            of.map(|node| node["name"]["value"].as_str().unwrap_or("")).collect()
        };
        assert_eq!(role("heading").len(), 6, "{:?}", role("heading"));
        let regions = ["What needs attention", "Sequences", "Gaps", "Leases", "Settings"];
        assert_eq!(role("region"), regions, "{width}");
        let tables = role("table");
        assert_eq!(tables.len(), 5, "{tables:?} at {width}");
        assert!(tables.iter().all(|name| name.len() > 10), "{tables:?} at {width}");
        assert!(role("rowheader").len() > 15, "{width}");
        assert!(role("columnheader").len() > 20, "{:?} at {width}", role("columnheader"));
        let pictures: Vec<&str> = ["image", "img"].into_iter().flat_map(role).collect();
        assert!(pictures.len() > 20, "{pictures:?} at {width}");
        assert!(pictures.iter().all(|name| name.len() > 8), "{pictures:?} at {width}");
    }
    cluster.finish();
}
