//! Shows a profile to people and to programs.
//!
//! * [`table`] – the terminal table: what was run, then the sites, hottest first.
//! * [`site`] – one site in full, with its whole call stack.
//! * [`json`] – the whole profile, summed per site, for programs (`docs/report.md` describes it).
//! * [`html`] – one page that needs no network: size against heat, and both over time.
//!
//! * [`firefox`](firefox()) – the same for the Firefox profiler.
//! * [`diff`](diff()), [`diff_table`], [`diff_page`] – two profiles, before and after a guided run.
//! * [`plan_diff`], [`plan_diff_table`] – two plans.
//! * [`landing`](landing()) – a guided run: planned against real.
//!
//! * [`forecast`](forecast()), [`machines`], [`explanation`] – what plans are predicted to do.
//! * [`curve`](curve()), [`curve_page`] – predicted slowdown over fast memory.
//!
//! * [`Log`], [`log_table`], [`log_page`] – what `hearth live` did, by its log.
//!
//! * [`comparison`](comparison()), [`comparison_page`], [`comparison_svg`] – placements of one program in the lab.
//! * [`suite_markdown`], [`suite_page`], [`suite_svg`] – the same for many programs.
//!
//! All of them are functions from types of `model` to text; nothing here opens a file or asks the terminal.
//! Estimated figures are marked `~` wherever they appear, and the sampler that made them is named with its error.

mod comparison;
mod curve;
mod diff;
mod firefox;
mod forecast;
pub mod html;
mod json;
mod landing;
mod log;
mod plans;
mod site;
mod suite;
mod table;
pub mod words;

pub use comparison::{comparison, comparison_page, comparison_svg};
pub use curve::{curve, curve_page};
pub use diff::{DIFF_VERSION, Diff, diff, diff_page, diff_table};
pub use firefox::firefox;
pub use forecast::{explanation, forecast, machines};
pub use json::{JSON_VERSION, json};
pub use landing::landing;
pub use log::{Log, log_page, log_table};
pub use plans::{PLAN_DIFF_VERSION, PlanDiff, plan_diff, plan_diff_table};
pub use site::{NoSite, find, site};
pub use suite::{suite_markdown, suite_page, suite_svg};
pub use table::table;
