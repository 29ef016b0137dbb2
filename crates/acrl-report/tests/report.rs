//! The page, the pictures and the folder, from the outside.

#![allow(clippy::unwrap_used)]

use std::fs;

use acrl_report::{
    Area, Arrow, Axis, Band, Bar, Bars, Block, Bound, Cell, Colour, Error, Field, Figure, Heat, Lines, Model,
    Panel, Plot, Region, Report, Series, Slider, Table, Tone, live_html,
};
use resvg::{tiny_skia::Pixmap, usvg::roxmltree::Document};

/// More than a mail server takes would be too much.
const MOST_BYTES: usize = 8_000_000;

fn lines() -> Plot {
    let (x, y) = (vec![0.0, 1.0, 2.0], vec![0.1, f64::NAN, 0.3]);
    let band = Some(Band { name: "runs".to_owned(), low: vec![0.0; 3], high: vec![0.5; 3] });
    let red = Series::new("red <&> \"x\"", Colour::Red, x.clone(), y.clone());
    let series = vec![Series { band, steps: true, ..red }, Series::new("blue", Colour::Blue, x, y)];
    let bounds = vec![Bound::new("red ≥ 0.2", 0.2, Colour::Red)];
    Plot::Lines(Lines { x: Axis::new("step"), y: Axis::default(), series, bounds })
}

fn bars() -> Plot {
    let bar = Bar {
        name: "A-CRL".to_owned(),
        colour: Colour::Blue,
        values: vec![0.2, 0.3],
        ranges: vec![(0.1, 0.4), (0.2, 0.5)],
    };
    let categories = vec!["one, two".to_owned(), "three".to_owned()];
    Plot::Bars(Bars { categories, y: Axis::default(), bars: vec![bar], bounds: vec![Some(0.25), None] })
}

const AREA: Area = Area { x: (0.0, 10.0), y: (0.0, 10.0) };

fn region() -> Region {
    Region {
        name: "dock".to_owned(),
        colour: Colour::Green,
        outline: vec![(1.0, 1.0), (3.0, 1.0), (3.0, 3.0)],
    }
}

fn field() -> Plot {
    let model = Model::Mlp {
        objective: true,
        scales: vec![1.0, 1.0],
        observation: vec![(5.0, 0.2); 2],
        rest: vec![],
        output: vec![(0.0, 1.0); 2],
        longest: None,
        shape: vec![4, 2],
        parameters: vec![0.5; 10],
    };
    let arrow = |k: u32| Arrow { x: f64::from(k % 3) + 1.0, y: f64::from(k / 3) + 1.0, dx: 0.5, dy: -1.0 };
    let slider = Slider { name: "dock".to_owned(), colour: Colour::Green, value: 0.5, most: 3.0 };
    Plot::Field(Field {
        area: AREA,
        regions: vec![region()],
        arrows: (0..9).map(arrow).collect(),
        sliders: vec![slider],
        model: Some(model),
    })
}

fn heat() -> Plot {
    Plot::Heat(Heat { area: AREA, regions: vec![region()], columns: 2, shares: vec![0.5, 0.25, 0.25, 0.0] })
}

fn drawing(elements: &str) -> Plot {
    Plot::Drawing { width: 100.0, height: 50.0, elements: elements.to_owned() }
}

fn figure(name: &str, plots: Vec<Plot>) -> Figure {
    let panels = plots.into_iter().map(|plot| Panel::new("a panel", plot)).collect();
    Figure::new(name, &format!("About {name}"), "How to read it.", 2, panels)
}

fn report(figures: Vec<Figure>) -> Report {
    let table = Table::new(["a"], [vec![Cell::new("met", Tone::Good)]], "");
    let mut blocks =
        vec![Block::Heading("Results".to_owned()), Block::Text("Text.".to_owned()), Block::Table(table)];
    blocks.extend(figures.into_iter().map(Block::Figure));
    Report {
        title: "</script><script>alert(1)</script> & co".to_owned(),
        lead: "<!-- All is well".to_owned(),
        good: Some(true),
        blocks,
        facts: vec![("seed".to_owned(), "7".to_owned())],
        command: "acrl demo".to_owned(),
    }
}

fn whole() -> Report {
    let circle =
        "<circle cx='50' cy='25' r='20' class='red'/><text x='50' y='25' fill='currentColor'>R0</text>";
    report(vec![
        figure("curves", vec![lines(), bars()]),
        figure("plane-2", vec![field(), heat(), drawing(circle)]),
    ])
}

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let after = &text[text.find(from).unwrap() + from.len()..];
    &after[..after.find(to).unwrap()]
}

#[test]
fn page_escapes_the_report() {
    let report = whole();
    let html = report.to_html();
    let data = between(&html, "<script type=\"application/json\" id=\"report\">", "</script>");
    let read: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(read, serde_json::to_value(&report).unwrap());
    assert_eq!(read["title"], report.title);
    assert!(read["blocks"][3]["content"]["panels"][0]["plot"]["lines"]["series"][0]["y"][1].is_null());
    assert!(!html.contains("<script>alert"));
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    assert!(html.contains("<title>&lt;/script&gt;"));
    for gap in ["title", "policy", "style", "plotly", "report", "live", "script"] {
        assert!(!html.contains(&format!("{{{{{gap}}}}}")), "{gap} is left out");
    }
}

#[test]
fn page_makes_no_network_requests() {
    for html in [whole().to_html(), live_html("Training", "live.json")] {
        assert!(html.len() < MOST_BYTES, "{} bytes", html.len());
        let plotly = between(&html, "<script type=\"text/javascript\">", "</script>");
        assert!(plotly.contains("plotly.js"));
        let ours = html.replace(plotly, "").replace("http://www.w3.org/2000/svg", "");
        assert!(ours.len() < 200_000, "MathJax is not part of it");
        for reference in ["http:", "https:", "//cdn", "@import", "url(", "<iframe", "<link rel=\"stylesheet"]
        {
            assert!(!ours.contains(reference), "{reference}");
        }
        assert!(ours.contains("default-src 'none'"));
    }
    assert!(!whole().to_html().contains("connect-src"));
}

#[test]
fn live_page_polls_its_own_server() {
    let html = live_html("Training <now>", "live.json?a=</script>");
    let data = between(&html, "id=\"live\">", "</script>");
    assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()["url"], "live.json?a=</script>");
    assert!(html.contains("connect-src 'self'") && html.contains("<title>Training &lt;now&gt;</title>"));
}

#[test]
fn pictures_are_well_formed_and_name_what_they_show() {
    for (figure, names) in [
        (figure("a", vec![lines()]), vec!["red <&> \"x\"", "blue", "runs", "red ≥ 0.2", "step", "About a"]),
        (figure("a", vec![bars()]), vec!["A-CRL", "required", "three", "0.25"]),
        (figure("a", vec![field()]), vec!["dock", "multipliers: dock 0.5", "10"]),
        (figure("a", vec![heat()]), vec!["dock", "a panel", "0 %"]),
        (figure("a", vec![drawing("<text x='1' y='9'>R0</text>")]), vec!["R0"]),
    ] {
        let svg = figure.to_svg();
        let tree = Document::parse(&svg).unwrap();
        let texts: Vec<_> = tree.descendants().filter_map(|node| node.text()).collect();
        for name in names {
            assert!(texts.contains(&name), "{name} is not among {texts:?}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn png_has_double_resolution_and_is_not_blank() {
    for plot in [lines(), bars(), field(), heat(), drawing("<rect width='50' height='50' class='red'/>")] {
        let figure = figure("a", vec![plot]);
        let svg = figure.to_svg();
        let root = Document::parse(&svg).unwrap();
        let side = |name| root.root_element().attribute(name).unwrap().parse::<u32>().unwrap();
        let pixels = Pixmap::decode_png(&figure.to_png().unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (2 * side("width"), 2 * side("height")));
        let white =
            pixels.pixels().iter().filter(|p| (p.red(), p.green(), p.blue()) == (255, 255, 255)).count();
        let all = pixels.pixels().len();
        assert!(white < all - all / 1000, "it is blank");
        assert!(pixels.pixels().iter().all(|p| p.alpha() == 255));
    }
}

/// Letters that the texts of acrl use: the picture of each differs from the picture of a letter that no font has.
#[test]
fn the_embedded_font_has_our_letters() {
    let picture = |letter: char| {
        figure("a", vec![drawing(&format!("<text x='9' y='40'>{letter}</text>"))]).to_png().unwrap()
    };
    let missing = picture('\u{E123}');
    for letter in "λ≥≤−–₀₁ηγπαθΣ·→²⁻⁵…±×✓✗∞≈∈".chars() {
        assert!(picture(letter) != missing, "{letter}");
    }
}

#[test]
fn empty_figures_are_drawn() {
    let empty = Plot::Lines(Lines { x: Axis::default(), y: Axis::default(), series: vec![], bounds: vec![] });
    let log = Axis { log: true, ..Axis::default() };
    let band = Some(Band { name: "b".to_owned(), low: vec![0.0; 2], high: vec![1.0; 2] });
    let none = Series::new("a", Colour::Sky, vec![0.0, 1.0], vec![0.0, -1.0]);
    let none = Series { band, dashed: true, ..none };
    let logs = Plot::Lines(Lines { x: log.clone(), y: log.clone(), series: vec![none], bounds: vec![] });
    let bars = Plot::Bars(Bars { categories: vec![], y: log, bars: vec![], bounds: vec![] });
    let field =
        Plot::Field(Field { area: AREA, regions: vec![], arrows: vec![], sliders: vec![], model: None });
    let heat = Plot::Heat(Heat { area: AREA, regions: vec![], columns: 0, shares: vec![] });
    for figure in [figure("a", vec![empty, logs, bars, field, heat]), figure("a", vec![])] {
        assert!(!figure.to_svg().contains("NaN"));
        figure.to_png().unwrap();
        assert_eq!(figure.to_csv().lines().next(), Some("panel,title,kind,series,x,y,low,high,dx,dy,share"));
    }
}

#[test]
fn csv_has_a_row_per_number() {
    let csv = figure("a", vec![lines(), bars(), field(), heat(), drawing("")]).to_csv();
    let rows: Vec<_> = csv.lines().skip(1).collect();
    for row in [
        "1,a panel,line,\"red <&> \"\"x\"\"\",0,0.1,0,0.5,,,",
        "1,a panel,line,blue,1,,,,,,",
        "1,a panel,bound,red ≥ 0.2,,0.2,,,,,",
        "2,a panel,bar,A-CRL,\"one, two\",0.2,0.1,0.4,,,",
        "2,a panel,bound,required,\"one, two\",0.25,,,,,",
        "3,a panel,arrow,,1,1,,,0.5,-1,",
        "3,a panel,multiplier,dock,,0.5,,,,,",
        "4,a panel,cell,,2.5,2.5,,,,,0.5",
        "4,a panel,region,dock,3,1,,,,,",
    ] {
        assert!(rows.contains(&row), "{row} is not in\n{csv}");
    }
    assert_eq!(rows.len(), (3 + 3 + 1) + (2 + 1) + (9 + 1 + 3) + (4 + 3));
}

#[test]
fn report_is_written_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/report");
    whole().write(&path).unwrap();
    whole().write(&path).unwrap();
    let mut files = vec!["report.html".to_owned(), "report.json".to_owned()];
    for name in ["curves", "plane-2"] {
        files.extend([
            format!("figures/{name}.svg"),
            format!("figures/{name}.png"),
            format!("data/{name}.csv"),
        ]);
    }
    for file in &files {
        assert!(fs::metadata(path.join(file)).unwrap().len() > 0, "{file}");
    }
    let found = ["", "figures", "data"].map(|part| fs::read_dir(path.join(part)).unwrap().count());
    assert_eq!(found, [4, 4, 2]);
    let html = fs::read_to_string(path.join("report.html")).unwrap();
    assert_eq!(html, whole().to_html());
    assert!(html.len() < MOST_BYTES);
}

#[test]
fn invalid_figure_names_are_rejected_before_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    for name in ["", "a b", "../a", "Ä", "Big"] {
        let error = report(vec![figure(name, vec![])]).write(&path).unwrap_err();
        let expected = format!("a figure is called '{name}': expected small letters, digits and hyphens");
        assert_eq!(error.to_string(), expected);
    }
    let error = report(vec![figure("a", vec![]), figure("a", vec![])]).write(&path).unwrap_err();
    assert_eq!(error.to_string(), "two figures are called 'a': expected a name for each");
    assert!(!path.exists());
}

#[test]
fn errors_name_the_figure_or_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = report(vec![figure("broken", vec![drawing("<circle")])]).write(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::Picture { name, .. } if name == "broken"), "{error}");
    fs::write(folder.path().join("file"), "").unwrap();
    let error = whole().write(&folder.path().join("file")).unwrap_err().to_string();
    assert!(error.starts_with("cannot create ") && error.ends_with("figures"), "{error}");
}
