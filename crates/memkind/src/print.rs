//! What `memkind_stats_print` prints.

use api::state::Tally;
use core::ffi::{c_char, c_void};
use std::ffi::CString;
use std::io::Write as _;

/// The program's own way to write.
pub type Write = unsafe extern "C" fn(*mut c_void, *const c_char);

/// One line for each kind, or one object of JSON.
fn text(rows: &[(String, Tally)], json: bool) -> String {
    let row = |(name, t): &(String, Tally)| {
        let (allocated, active, resident) = (t.allocated, t.active, t.resident);
        if json {
            format!("\"{name}\":{{\"allocated\":{allocated},\"active\":{active},\"resident\":{resident}}}")
        } else {
            format!("{name}: {allocated} bytes allocated, {active} active, {resident} resident\n")
        }
    };
    let lines: Vec<String> = rows.iter().map(row).collect();
    if json { format!("{{\"kinds\":{{{}}}}}\n", lines.join(",")) } else { lines.concat() }
}

/// Writes it, by the program's function or to standard error.
///
/// # Safety
/// `write` must take `opaque` and a text.
pub unsafe fn rows(rows: &[(String, Tally)], json: bool, write: Option<Write>, opaque: *mut c_void) {
    let text = text(rows, json);
    match (write, CString::new(text.as_str())) {
        // SAFETY: the caller's.
        (Some(write), Ok(text)) => unsafe { write(opaque, text.as_ptr()) },
        _ => _ = std::io::stderr().write_all(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_line_and_json_is_whole() {
        let tally = Tally { allocated: 1, active: 2, resident: 3 };
        let rows = [("MEMKIND_HBW".to_string(), tally), ("kind 30".to_string(), tally)];
        assert_eq!(text(&rows[..1], false), "MEMKIND_HBW: 1 bytes allocated, 2 active, 3 resident\n");
        let one = "{\"allocated\":1,\"active\":2,\"resident\":3}";
        assert_eq!(text(&rows, true), format!("{{\"kinds\":{{\"MEMKIND_HBW\":{one},\"kind 30\":{one}}}}}\n"));
        assert_eq!(text(&[], true), "{\"kinds\":{}}\n");
    }
}
