//! Pages of Envoy's program that only its start needed: most of an idle Envoy's memory.

use std::thread;
use std::time::Duration;
use std::{env, fs};

use crate::abi;

/// Envoy starts and gets its configuration in the first minute, sooner on a fast machine.
const TIMES: u32 = 12;
const STEP: Duration = Duration::from_secs(5);

/// Give back the pages of the program while it starts. Those in use come back from the page cache.
pub fn give_back_code() {
    // Without a thread, the pages stay.
    let _ = thread::Builder::new().name("give_back_code".into()).spawn(|| {
        let program = env::current_exe().unwrap_or_default();
        for _ in 0..TIMES {
            thread::sleep(STEP);
            let maps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
            for (start, end) in list_unchanged(&maps, &program.to_string_lossy()) {
                abi::drop_pages(start, end);
            }
        }
    });
}

/// Return the places in memory of a file of which no page was written, given `/proc/self/smaps` (proc(5)).
fn list_unchanged(maps: &str, file: &str) -> Vec<(usize, usize)> {
    let mut unchanged = Vec::new();
    let mut place = None;
    for line in maps.lines() {
        if let Some(range) = parse_range(line) {
            let is_of_file =
                line.ends_with(file) && line.split(' ').nth(1).is_some_and(|access| !access.contains('w'));
            place = is_of_file.then_some(range);
        } else if line.starts_with("Anonymous:") && line.split_whitespace().nth(1) == Some("0") {
            // Relocated data cannot be written either, and would be lost.
            unchanged.extend(place);
        }
    }
    unchanged
}

/// Return the place in memory that the first line about it begins with.
fn parse_range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 r--p 00000000 fe:00 7 /opt/envoy
Rss:                   8 kB
Anonymous:             0 kB
3000-9000 r-xp 00002000 fe:00 7 /opt/envoy
Anonymous:             0 kB
9000-a000 r--p 00008000 fe:00 7 /opt/envoy
Anonymous:             4 kB
a000-b000 rw-p 00009000 fe:00 7 /opt/envoy
Anonymous:             0 kB
b000-c000 r-xp 00000000 fe:00 8 /lib/libc.so.6
Anonymous:             0 kB
c000-d000 rw-p 00000000 00:00 0
Anonymous:             0 kB
";

    #[test]
    fn only_places_of_the_file_without_a_written_page_are_unchanged() {
        assert_eq!(list_unchanged(MAPS, "/opt/envoy"), [(0x1000, 0x3000), (0x3000, 0x9000)]);
    }

    #[test]
    fn what_the_program_does_next_still_works() {
        let program = env::current_exe().unwrap();
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let unchanged = list_unchanged(&maps, &program.to_string_lossy());
        assert!(!unchanged.is_empty());
        for (start, end) in unchanged {
            abi::drop_pages(start, end);
        }
        assert!(fs::read_to_string("/proc/self/comm").is_ok());
    }
}
