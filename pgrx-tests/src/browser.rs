//! A headless Chromium, which a test asks what it has made of a page. It speaks Chromium's DevTools protocol through two
//! pipes: JSON objects, each with a zero byte behind it.

use std::env::var_os;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::{Value, json};

use crate::wait::LONG;

pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// The page that is asked, once there is one.
    session: Option<Value>,
    calls: i64,
    /// The messages of the browser that nobody asked for: methods and their parameters.
    pub told: Vec<(String, Value)>,
}

impl Browser {
    /// The program. A missing program is printed, and fails the test where the environment says
    /// `CI`.
    pub fn program() -> Option<PathBuf> {
        if var_os("HILO_CLIENTS").is_some_and(|choice| choice == "no") {
            println!("skipped: HILO_CLIENTS is no");
            return None;
        }
        let path = var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .map(|directory| directory.join("chromium"))
            .find(|program| program.exists());
        if found.is_none() {
            assert!(var_os("CI").is_none(), "chromium is missing; run scripts/browser");
            println!("skipped: chromium is missing; run scripts/browser");
        }
        found
    }

    /// Starts the browser, with its own files in `profile`, which need not exist.
    pub fn start(program: &Path, profile: &Path) -> Browser {
        // The protocol uses descriptor 3 for what the browser reads, and 4 for what it writes.
        const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut process = Command::new("sh")
            .args(["-c", PIPES, "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-extensions"])
            .args(["--hide-scrollbars", "--disable-lcd-text", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cannot start sh");
        let to = process.stdin.take().expect("it is piped");
        let answers = process.stdout.take().expect("it is piped");
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("it speaks JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Browser { process, to, from, session: None, calls: 0, told: Vec::new() }
    }

    /// Opens a new page on a file, so many pixels wide, and waits until it is drawn.
    #[track_caller]
    pub fn open(&mut self, file: &Path, width: u32) {
        self.session = None;
        self.told.clear();
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        self.session = Some(self.call("Target.attachToTarget", target)["sessionId"].clone());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.resize(width);
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        self.wait_for("Page.loadEventFired");
    }

    /// Makes the page so many pixels wide.
    #[track_caller]
    pub fn resize(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Shows the page as in `scheme`, `light` or `dark`, on the screen.
    #[track_caller]
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": "screen", "features": features}));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// A picture of the page from its top, so many pixels high, as PNG.
    #[track_caller]
    pub fn screenshot(&mut self, height: f64) -> Vec<u8> {
        let width = self.evaluate("innerWidth");
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let asked = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let answer = self.call("Page.captureScreenshot", asked);
        decode(&answer["data"])
    }

    /// The page printed, as PDF.
    #[track_caller]
    pub fn print(&mut self) -> Vec<u8> {
        let asked = json!({"printBackground": true, "preferCSSPageSize": true});
        let answer = self.call("Page.printToPDF", asked);
        decode(&answer["data"])
    }

    /// Asks the browser, and returns its answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut question = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            question["sessionId"] = session.clone();
        }
        let mut bytes = question.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser has ended");
        loop {
            let message = self.hear(method);
            if message["id"] == self.calls {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    #[track_caller]
    fn wait_for(&mut self, event: &str) {
        while !self.told.iter().any(|(method, _)| method == event) {
            self.hear(event);
        }
    }

    #[track_caller]
    fn hear(&mut self, awaited: &str) -> Value {
        let message = self.from.recv_timeout(LONG);
        let message = message.unwrap_or_else(|error| panic!("{awaited}: {error}"));
        if let Some(method) = message["method"].as_str() {
            self.told.push((method.to_owned(), message["params"].clone()));
        }
        message
    }
}

fn decode(answer: &Value) -> Vec<u8> {
    STANDARD.decode(answer.as_str().expect("it is a text")).expect("it is in base64")
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when nobody can speak to it any more; its helpers end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
