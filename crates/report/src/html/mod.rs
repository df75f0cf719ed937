//! one page
use model::Observed;
/// page
pub fn page(_o: &Observed) -> String {
    String::new()
}
