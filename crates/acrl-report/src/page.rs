//! The page: one file that holds the plotting library, the styles, our script and the report as data.
//!
//! Nothing is loaded from anywhere; a Content-Security-Policy in the page says so to the browser as well.

use serde::Serialize;

use crate::Report;
use crate::escape::escape;

const SKELETON: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const POLICY_SCRIPT: &str = include_str!("page/policy.js");
const PLOTS_SCRIPT: &str = include_str!("page/plots.js");
const PAGE_SCRIPT: &str = include_str!("page/page.js");

/// Inline scripts and styles, and the pictures that the library makes of its own plots; no network at all.
const SEALED: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

impl Report {
    /// The report as one HTML file that opens anywhere without a network.
    pub fn to_html(&self) -> String {
        page(&self.title, SEALED, &json(self), "null")
    }
}

/// A page that asks `url` (on the same server, such as `live.json`) every second for
/// `{"report": …, "done": …}`, shows the [`Report`] and stops asking when it is done.
pub fn live_html(title: &str, url: &str) -> String {
    let policy = format!("{SEALED}; connect-src 'self'");
    page(title, &policy, "null", &json(&serde_json::json!({ "url": url })))
}

/// Fills in the skeleton from left to right, so that what is filled in is never looked at for gaps.
fn page(title: &str, policy: &str, report: &str, live: &str) -> String {
    let (title, plotly) = (escape(title), plotly());
    let mut html = String::with_capacity(plotly.len() + report.len() + 100_000);
    let mut rest = SKELETON;
    while let Some((before, after)) = rest.split_once("{{") {
        html.push_str(before);
        let (gap, after) = after.split_once("}}").unwrap_or((after, ""));
        match gap {
            "title" => html.push_str(&title),
            "policy" => html.push_str(policy),
            "style" => html.push_str(STYLE),
            "plotly" => html.push_str(&plotly),
            "report" => html.push_str(report),
            "live" => html.push_str(live),
            "script" => [POLICY_SCRIPT, PLOTS_SCRIPT, PAGE_SCRIPT].iter().for_each(|s| html.push_str(s)),
            _ => debug_assert!(false, "the skeleton has an unknown gap {gap}"),
        }
        rest = after;
    }
    html.push_str(rest);
    html
}

/// The first of the library's two script tags. The second is MathJax, which nothing here needs.
fn plotly() -> String {
    const END: &str = "</script>";
    let mut scripts = plotly::Plot::offline_js_sources();
    if let Some(end) = scripts.find(END) {
        scripts.truncate(end + END.len());
    }
    scripts
}

/// JSON that may stand in a script element: without `<` nothing in it can end the element. A number that is not finite
/// becomes `null`.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()).replace('<', "\\u003c")
}
