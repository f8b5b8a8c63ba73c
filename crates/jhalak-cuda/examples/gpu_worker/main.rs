//! Times attention on a GPU for `benchmarks/gpu`: one request a line, one answer a line, as JSON.
//!
//! ```text
//! {"what": "time", "pass": "forward", "dtype": "bf16", "batch": 1, "seqlen": 4096, "heads": 16,
//!  "heads_k": 16, "dim": 128, "causal": true, "window": null, "target": null, "path": null,
//!  "ms": 60}
//!  ──▶  {"ms": 0.91, "calls": 61, "path": "hopper"}
//! {"what": "host", …}  ──▶  {"call_us": …, "empty_us": …}
//! {"what": "cold", …}  ──▶  {"s": …}
//! ```

mod request;
mod setup;
mod time;

use std::io::{BufRead, Write};

use request::Request;

fn main() {
    let mut worker = time::Worker::new().expect("a GPU");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a readable line");
        let answer = match Request::parse(&line).and_then(|request| worker.answer(&request)) {
            Ok(answer) => answer,
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        println!("{answer}");
        std::io::stdout().flush().expect("a writable answer");
    }
}
