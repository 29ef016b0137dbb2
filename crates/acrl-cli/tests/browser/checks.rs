//! What the tests ask of a page.
#![allow(dead_code)] // Each test uses its part.

use std::time::{Duration, Instant};

use super::chromium::{Browser, PATIENCE};

/// The names of figures with a panel in which nothing is drawn that has a size; and "nothing" if there is no figure.
const UNDRAWN: &str = "(() => {
    const marks = '.js-line, .js-fill, .bars path, .heatmaplayer image, svg.drawing > *, canvas';
    const seen = (mark) => { const box = mark.getBoundingClientRect(); return box.width + box.height > 0; };
    const drawn = (panel) => [...panel.querySelectorAll(marks)].some(seen);
    const figures = [...document.querySelectorAll('[data-figure]')];
    const missing = figures.filter((f) => !f.querySelector('.panel') || ![...f.querySelectorAll('.panel')].every(drawn));
    return figures.length ? missing.map((f) => f.dataset.figure) : ['nothing'];
})()";

/// Waits until every panel of every figure shows something.
pub(crate) fn drawn(browser: &mut Browser) {
    let begin = Instant::now();
    while browser.eval(&format!("{UNDRAWN}.length")) != 0 {
        let late = begin.elapsed() > PATIENCE;
        assert!(!late, "not drawn: {} {:?}", browser.eval(UNDRAWN), browser.problems());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// That the page has met no error, and has asked nobody but those whose addresses begin like this.
pub(crate) fn clean(browser: &Browser, origin: &str) {
    let problems = browser.problems();
    assert!(problems.is_empty(), "{problems:#?}");
    let allowed =
        |url: &String| [origin, "data:", "blob:", "about:blank"].iter().any(|own| url.starts_with(own));
    let others: Vec<String> = browser.requests().into_iter().filter(|url| !allowed(url)).collect();
    assert!(others.is_empty(), "requests leave the page: {others:?}");
}

/// The arrows of the policy's figure.
pub(crate) fn arrows(browser: &mut Browser) -> Vec<[f64; 2]> {
    let arrows = browser.eval("window.acrl.arrows('policy').map((a) => [a.dx, a.dy])");
    serde_json::from_value(arrows).unwrap()
}

pub(crate) fn largest_difference(a: &[[f64; 2]], b: &[[f64; 2]]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a[0] - b[0]).abs().max((a[1] - b[1]).abs())).fold(0.0, f64::max)
}

/// Moves the slider of a multiplier to where `to`, an expression of its element, says, as a hand does; waits until it is
/// drawn.
pub(crate) fn slide(browser: &mut Browser, index: usize, to: &str) {
    browser.eval(&format!(
        "new Promise((resolve) => {{
            const slider = document.querySelectorAll('[data-figure=policy] input[type=range]')[{index}];
            slider.value = {to};
            slider.dispatchEvent(new Event('input', {{ bubbles: true }}));
            requestAnimationFrame(() => requestAnimationFrame(resolve));
        }})"
    ));
}
