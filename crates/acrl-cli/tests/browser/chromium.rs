//! A headless browser, driven over the DevTools protocol: as much of it as the tests need.
#![allow(dead_code)] // Each test uses its part.

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One page of a browser of its own. Dropping it ends the browser.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    last: u64,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new(executable())
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
            .args(["--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("the browser does not start: {error}"));
        let (tell, told) = mpsc::channel();
        let messages = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || {
            messages.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)))
        });
        let mut said = Vec::new();
        let url = loop {
            let line = told.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("the browser did not start: {}", said.join("\n")));
            if let Some(url) = line.strip_prefix("DevTools listening on ") {
                break url.to_owned();
            }
            said.push(line);
        };
        // What it says from here on is of no interest, but must be read.
        std::thread::spawn(move || told.into_iter().for_each(drop));
        let address = url.strip_prefix("ws://").and_then(|rest| rest.split('/').next()).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(url.as_str(), stream)
            .unwrap_or_else(|error| panic!("no connection to the browser: {error}"));
        // From here on, so that nothing waits for ever.
        socket.get_ref().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Self { process, socket, session, last: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let asked = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", asked);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < PATIENCE, "{method}: no answer");
            let text = match self.socket.read() {
                Ok(Message::Text(text)) => text,
                Ok(_) => continue,
                Err(tungstenite::Error::Io(e))
                    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    continue;
                }
                Err(error) => panic!("{method}: {error}"),
            };
            let mut answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.last {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// Opens an address.
    pub(crate) fn goto(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.wait(
            "the page is there",
            "document.readyState === 'complete' && location.href !== 'about:blank'",
        );
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        let begin = Instant::now();
        while self.eval(&format!("!!({expression})")) != Value::Bool(true) {
            let problems = self.problems();
            assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}: {problems:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A window of this size, in light or dark.
    pub(crate) fn window(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Writes a picture of the whole page to `target/browser/NAME.png`, for people.
    pub(crate) fn picture(&mut self, name: &str) {
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../browser");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), base64(shot["data"].as_str().unwrap())).unwrap();
    }

    /// Closes the page and forgets what it did.
    pub(crate) fn forget(&mut self) {
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.wait("the page is gone", "location.href === 'about:blank'");
        self.events.clear();
    }

    /// Errors that the page has met: uncaught, or written to the console.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.events.iter().filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if matches!(params["type"].as_str(), Some("error" | "assert")) => {
                    Some(params["args"].to_string())
                }
                "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
                _ => None,
            }
        });
        problems.collect()
    }

    /// The addresses that the page has asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter_map(|event| match event["method"].as_str()? {
            "Network.requestWillBeSent" => Some(event["params"]["request"]["url"].as_str()?.to_owned()),
            "Network.webSocketCreated" => Some(event["params"]["url"].as_str()?.to_owned()),
            _ => None,
        });
        requests.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The browser's program.
fn executable() -> PathBuf {
    if let Some(path) = std::env::var_os("CHROMIUM") {
        return path.into();
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mac = PathBuf::from("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome");
    let found = all.find(|path| path.is_file()).or_else(|| mac.is_file().then_some(mac));
    found.expect("there is no chromium: run tests/install-browser.sh, as `make test` does, or set CHROMIUM")
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.bytes().filter_map(|b| DIGITS.iter().position(|d| *d == b)).map(|d| d as u32).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for part in digits.chunks(4) {
        let word = part.iter().enumerate().fold(0, |word, (i, digit)| word | digit << (26 - 6 * i));
        bytes.extend_from_slice(&word.to_be_bytes()[..part.len() * 6 / 8]);
    }
    bytes
}
