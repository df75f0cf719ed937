//! A flame graph of call paths: by misses, by live bytes at the fullest moment, or by bytes allocated in all. The script
//! draws what is wide enough to be seen, so a page of thousands of sites stays light; here is the place where it draws.

use model::Observed;

/// The figure, empty until the script fills it.
pub fn figure(observed: &Observed) -> String {
    let sampled = observed.total_misses() > 0.0;
    // Number in `data::Site::values`, word on the button.
    let measures = [(0, "~misses"), (1, "live bytes at the fullest moment"), (2, "bytes allocated")];
    let mut out = String::from(
        "<section id=\"flame\">\n<h2>Call paths</h2>\n<p>From the program's start (top) to the function that allocates (bottom); width is the share of what is chosen. Click a frame to zoom in, and again to zoom out.</p>\n<noscript><p>This figure needs scripts, which are switched off.</p></noscript>\n<p class=\"tools\" hidden><span class=\"choice\" role=\"group\" aria-label=\"Width shows\">",
    );
    for (number, name) in measures.into_iter().filter(|(n, _)| sampled || *n > 0) {
        out += &format!("<button type=\"button\" data-measure=\"{number}\">{name}</button>");
    }
    out + "</span> <input type=\"search\" placeholder=\"Search functions\" aria-label=\"Search functions\"> <button type=\"button\" class=\"reset\">Reset zoom</button> <span class=\"found\" role=\"status\"></span></p>\n<div class=\"graph\"></div>\n</section>\n"
}
