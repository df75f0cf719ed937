//! The page in a real browser: Chromium opens it with a script of the test behind the page's own, which acts as a reader
//! would and writes down what it saw.

use crate::common::{self, fixture, many};
use hearth_report::html::page;
use model::{Nanos, Observed, SiteId, Touch};
use serde_json::Value;
use std::process::Command;

/// A reader's window and wishes.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Width of the window in pixels.
    width: u32,
    /// A dark page is wished for.
    dark: bool,
}

const WIDE: View = View { width: 1400, dark: false };
/// A telephone's, or a window beside another; Chromium has none narrower.
const NARROW: View = View { width: 500, dark: false };

/// Opens `page` and gives what `script` returned. Whatever the browser complains of fails the test.
fn visit(page: &str, view: View, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let watch = "<script>const errors = []; addEventListener('error', e => errors.push(String(e.message)));\
        addEventListener('securitypolicyviolation', e => errors.push('refused: ' + e.blockedURI));\
        console.error = console.warn = (...all) => errors.push(all.join(' '));</script>";
    let act = format!(
        "<script>{{ let seen; try {{ seen = (() => {{ {script} }})(); }} catch (e) {{ errors.push(String(e.stack)); }}\
         document.documentElement.innerHTML = ''; document.documentElement.textContent = JSON.stringify({{seen, errors}}); }}</script>"
    );
    let page = page
        .replacen("<meta charset", &format!("{watch}<meta charset"), 1)
        .replace("</body>", &format!("{act}</body>"));
    std::fs::write(&file, page).unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=20000"]);
    chromium.arg("--enable-logging=stderr").arg(format!("--window-size={},1000", view.width));
    chromium.arg(format!("--user-data-dir={}", folder.path().join("browser").display()));
    chromium.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!view.dark)));
    let out = chromium.arg(format!("file://{}", file.display())).output();
    let out = out.expect("these tests need Chromium: apt-get install chromium");
    let (dom, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let start = dom.find('{').unwrap_or_else(|| panic!("the script said nothing:\n{dom}\n{log}"));
    let text = dom[start..=dom.rfind('}').unwrap()].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let said: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(said["errors"], serde_json::json!([]), "the browser complains; its log:\n{log}");
    let complaints: Vec<&str> = log.lines().filter(|l| l.contains(":CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    said["seen"].clone()
}

/// The fixture with functions that touch its two hottest sites.
fn touched() -> Observed {
    let mut o = fixture("lammps");
    let touch = |site: SiteId, function: &str, loads, latency| Touch {
        site: Some(site),
        function: function.to_string(),
        module: "lmp".to_string(),
        file: "pair.cpp".to_string(),
        line: 7,
        loads,
        stores: 1,
        misses: 0.0,
        timed: loads,
        latency: Some(latency),
    };
    let (first, second) = (o.sites[0].site.id, o.sites[1].site.id);
    o.touches = vec![touch(first, "Pair::compute", 90, 180.0), touch(second, "Bin::fill", 20, 95.0)];
    for site in &mut o.sites {
        site.lives = vec![model::Life { from: site.first_alloc, to: Nanos(site.last_free.0), size: site.peak }];
    }
    o
}

const ROWS: &str = "const table = document.getElementById('sites'), section = table.closest('section');
    const rows = () => [...table.tBodies[0].rows].filter(r => r.offsetHeight > 0);
    const type = (box, text) => { box.value = text; box.dispatchEvent(new Event('input')); };
    const filter = section.querySelector('input');";

#[test]
fn searching_filters_the_table_and_headings_sort_it() {
    let o = touched();
    for view in [WIDE, NARROW] {
        let seen = visit(
            &page(&o),
            view,
            &format!(
                "{ROWS} const at = (row, n) => +row.cells[n].dataset.v; const before = rows().length;
                 type(filter, 'NEIGHLIST::grow'); const found = rows().map(r => r.cells[0].textContent);
                 type(filter, 'no such name'); const none = rows().length; const count = section.querySelector('.count').textContent;
                 type(filter, ''); section.querySelector('.all').click(); const all = rows().length;
                 const sorted = []; const heads = table.tHead.rows[0].cells;
                 for (const [n, clicks] of [[6, 1], [6, 2], [9, 1]]) {{ for (let i = 0; i < clicks; i++) heads[n].firstChild.click();
                   sorted.push([heads[n].getAttribute('aria-sort'), rows().map(r => at(r, n))]); if (clicks == 2) heads[0].firstChild.click(); }}
                 heads[0].firstChild.click(); const names = rows().map(r => r.cells[0].textContent);
                 return {{before, found, none, count, all, sorted, names}};"
            ),
        );
        assert_eq!(seen["before"], 15);
        let found = seen["found"].as_array().unwrap();
        let named = |name: &Value| name.as_str().unwrap().contains("NeighList::grow");
        assert!(!found.is_empty() && found.iter().all(named), "{found:?}");
        assert_eq!((&seen["none"], &seen["count"]), (&0.into(), &format!("0 of {}", o.sites.len()).into()));
        assert_eq!(seen["all"], o.sites.len());
        for (n, sorted) in seen["sorted"].as_array().unwrap().iter().enumerate() {
            let figures: Vec<f64> = sorted[1].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            assert_eq!(figures.len(), o.sites.len());
            let descending = sorted[0] == "descending";
            assert!(
                figures.windows(2).all(|w| if descending { w[0] >= w[1] } else { w[0] <= w[1] }),
                "{n}: {figures:?}"
            );
        }
    }
}

const FLAME: &str = "const flame = document.getElementById('flame'), frames = () => [...flame.querySelectorAll('.frame')];
    const named = name => frames().find(f => f.dataset.tip.startsWith(name)), width = f => f.getBoundingClientRect().width;
    const whole = width(flame.querySelector('.graph'));";

/// Nothing reaches beyond the page but what scrolls by itself, and every picture is there, whatever the width.
#[test]
fn the_page_fits_its_window_and_all_pictures_are_drawn() {
    let script = "const wide = document.documentElement.clientWidth, scrolls = e => e && e.closest('.wide, .graph, pre');
        const out = [...document.body.querySelectorAll('*')].filter(e => !scrolls(e) && e.getBoundingClientRect().right > wide + 1)
          .map(e => e.tagName + '.' + e.className);
        const boxes = [...document.querySelectorAll('.wide')].map(e => e.getBoundingClientRect().right <= wide + 1);
        const pictures = [...document.querySelectorAll('svg.plot, .graph')].map(e => { const r = e.getBoundingClientRect();
          return [Math.round(r.width), Math.round(r.height), e.querySelectorAll('path, rect, circle, a, .frame').length]; });
        return {inner: innerWidth, scroll: document.documentElement.scrollWidth, wide, out, boxes, pictures};";
    for (observed, name) in [(touched(), "lammps"), (common::hostile(), "hostile"), (many(1000), "a thousand sites")] {
        let page = page(&observed);
        for view in [WIDE, NARROW, View { dark: true, ..NARROW }] {
            let seen = visit(&page, view, script);
            assert_eq!(seen["inner"], view.width, "{name}: the window is not what the test asked for");
            assert!(
                seen["scroll"].as_u64() <= seen["wide"].as_u64(),
                "{name}, {view:?}: the page scrolls sideways: {seen}"
            );
            assert_eq!(seen["out"], serde_json::json!([]), "{name}, {view:?}");
            let boxes = seen["boxes"].as_array().unwrap();
            assert!(boxes.len() >= 4 && boxes.iter().all(|fits| fits == true), "{name}, {view:?}: {seen}");
            // Size against heat, two of the timeline, the flame graph; lifetimes, where there are some.
            let pictures = seen["pictures"].as_array().unwrap();
            assert!(pictures.len() >= if name == "lammps" { 5 } else { 4 }, "{name}, {view:?}: {pictures:?}");
            for picture in pictures {
                let [width, height, marks] = [0, 1, 2].map(|n| picture[n].as_u64().unwrap());
                assert!(width > 300 && height > 40 && marks > 3, "{name}, {view:?}: {picture}");
            }
        }
    }
}

#[test]
fn the_flame_graph_zooms_searches_and_changes_what_it_shows() {
    let seen = visit(
        &page(&touched()),
        WIDE,
        &format!(
            "{FLAME} const root = width(frames()[0]) / whole; const find = 'LAMMPS_NS::NeighList::grow';
             const small = width(named(find)) / whole, texts = frames().length;
             named(find).click(); const zoomed = width(named(find)) / whole;
             named(find).click(); named(find).click(); const reset = flame.querySelector('.reset'), could = !reset.disabled;
             reset.click(); const back = width(named(find)) / whole;
             const box = flame.querySelector('input'); box.value = 'neighlist'; box.dispatchEvent(new Event('input'));
             const matching = frames().filter(f => f.classList.contains('match')).map(f => f.dataset.tip);
             const share = flame.querySelector('.found').textContent;
             flame.querySelector('[data-measure=\"1\"]').click(); const bytes = named(find).dataset.tip;
             const pressed = [...flame.querySelectorAll('[aria-pressed=true]')].map(b => b.textContent);
             return {{root, small, texts, zoomed, could, back, matching, share, bytes, pressed}};"
        ),
    );
    let number = |key: &str| seen[key].as_f64().unwrap_or_else(|| panic!("{key} of {seen}"));
    assert!((number("root") - 1.0).abs() < 0.01 && number("texts") > 10.0, "{seen}");
    assert!(number("small") < 0.9 && number("zoomed") > 0.99, "{seen}");
    assert!((number("back") - number("small")).abs() < 1e-6 && seen["could"] == true, "{seen}");
    let matching = seen["matching"].as_array().unwrap();
    assert!(!matching.is_empty() && matching.iter().all(|m| m.as_str().unwrap().contains("NeighList")), "{seen}");
    assert!(seen["share"].as_str().unwrap().ends_with("% in frames that match"), "{seen}");
    assert!(seen["bytes"].as_str().unwrap().contains("iB, "), "bytes are told as bytes: {seen}");
    assert_eq!(seen["pressed"], serde_json::json!(["live bytes at the fullest moment"]));
}

#[test]
fn functions_are_told_beside_a_site_and_by_themselves() {
    let seen = visit(
        &page(&touched()),
        WIDE,
        "const open = document.querySelector('#sites details'); open.open = true;
         const rows = [...document.querySelectorAll('#functions tbody tr')].map(r => r.textContent);
         return {inside: open.textContent, rows};",
    );
    let inside = seen["inside"].as_str().unwrap();
    assert!(inside.contains("Touched by") && inside.contains("Pair::compute: 100%, loads take 180 ns"), "{inside}");
    let first = seen["rows"][0].as_str().unwrap();
    assert!(first.contains("Pair::compute") && first.contains("180 ns") && first.contains("81.2%"), "{first}");
}

#[test]
fn names_that_would_be_markup_do_nothing() {
    let seen = visit(
        &page(&common::hostile()),
        WIDE,
        "document.querySelectorAll('details').forEach(d => { d.open = true; });
         document.querySelector('#flame .frame').click();
         return [document.images.length, document.scripts.length, document.querySelector('#flame').textContent];",
    );
    // The page's two, and two of this test.
    assert_eq!((&seen[0], &seen[1]), (&0.into(), &4.into()));
    assert!(seen[2].as_str().unwrap().contains("<script>alert"), "{seen}");
}

#[test]
fn dark_paper_is_dark_and_light_paper_is_light() {
    let script =
        "const at = (e, what) => getComputedStyle(e)[what].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
        return [at(document.body, 'backgroundColor'), at(document.querySelector('h1'), 'color')];";
    let page = page(&touched());
    for (dark, paper_above_ink) in [(false, true), (true, false)] {
        let seen = visit(&page, View { dark, ..WIDE }, script);
        let (paper, ink) = (seen[0].as_f64().unwrap(), seen[1].as_f64().unwrap());
        assert!((paper - ink).abs() > 400.0 && (paper > ink) == paper_above_ink, "dark {dark}: {seen}");
    }
}

/// What a reader does with a large page stays cheap because only what is seen is drawn; times are told, not judged.
#[test]
fn a_page_of_a_thousand_sites_draws_only_what_is_seen() {
    let page = page(&many(1200));
    for view in [WIDE, NARROW] {
        let seen = visit(
            &page,
            view,
            &format!(
                "{ROWS} {FLAME} const times = {{}}; const time = (name, act) => {{ const start = performance.now(); act();
                   document.body.offsetHeight; times[name] = Math.round(performance.now() - start); }};
                 const shown = rows().length, drawn = frames().length, nodes = document.querySelectorAll('*').length;
                 let text = ''; for (const key of 'neigh') {{ text += key; time('key ' + key, () => type(filter, text)); }}
                 time('clear', () => type(filter, ''));
                 time('sort', () => table.tHead.rows[0].cells[6].firstChild.click());
                 time('zoom', () => frames()[5].click());
                 const last = table.querySelector('[data-site=\"1199\"]'); last.open = true;
                 last.dispatchEvent(new Event('toggle')); const stack = last.querySelectorAll('li').length;
                 time('all', () => section.querySelector('.all').click()); const all = rows().length;
                 return {{shown, drawn, nodes, stack, all, times}};"
            ),
        );
        println!("{} pixels wide, {} elements; milliseconds: {}", view.width, seen["nodes"], seen["times"]);
        assert_eq!((&seen["shown"], &seen["all"]), (&15.into(), &1200.into()));
        assert!(seen["drawn"].as_u64().unwrap() < 3000, "{seen}");
        // A row of a site is some 15 elements, a mark two; stacks of all but the hottest are drawn when they are asked for.
        assert!(seen["nodes"].as_u64().unwrap() < 45_000, "{seen}");
        assert!(seen["stack"].as_u64().unwrap() > 2, "a stack that was not in the page as text: {seen}");
    }
}

/// On paper there is nothing to press, and a reader who likes the dark gets no black paper.
#[test]
fn paper_is_light_and_has_no_controls() {
    // What the page's rules for print say, taken out of their condition.
    let print = "for (const sheet of document.styleSheets) for (const rule of [...sheet.cssRules])
          if (rule instanceof CSSMediaRule && rule.conditionText === 'print')
            for (const inner of rule.cssRules) sheet.insertRule(inner.cssText, sheet.cssRules.length);
        const at = (e, what) => getComputedStyle(e)[what].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
        const seen = [...document.querySelectorAll('input, .tools, .tools button')].filter(e => e.offsetHeight > 0).length;
        return {seen, paper: at(document.body, 'backgroundColor'), ink: at(document.querySelector('h1'), 'color'),
          arrow: getComputedStyle(document.querySelector('th[aria-sort] button'), '::after').content};";
    let seen = visit(&page(&touched()), View { dark: true, ..WIDE }, print);
    assert_eq!((&seen["seen"], &seen["paper"], &seen["ink"]), (&0.into(), &765.into(), &0.into()), "{seen}");
    assert_eq!(seen["arrow"], "none");
}

#[test]
fn it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pdf) = (folder.path().join("page.html"), folder.path().join("page.pdf"));
    std::fs::write(&file, page(&touched())).unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]);
    chromium.arg(format!("--user-data-dir={}", folder.path().join("browser").display()));
    chromium.arg(format!("--print-to-pdf={}", pdf.display())).arg(format!("file://{}", file.display()));
    let out = chromium.output().expect("these tests need Chromium: apt-get install chromium");
    let pdf = std::fs::read(&pdf).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let pages = pdf.windows(11).filter(|w| *w == b"/Type /Page").count()
        - pdf.windows(12).filter(|w| *w == b"/Type /Pages").count();
    assert!((2..=12).contains(&pages), "{pages} pages");
}
