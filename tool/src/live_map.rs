//! The picture of address by time of a process that runs: its slabs and large objects, looked at again and again.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::Result;
use crate::explain::areas;
use crate::explain::heap::{Heap, Piece};
use crate::process;
use crate::progress::Progress;
use crate::trace_map::{Blocks, LG_BLOCK, Map};
use crate::trace_view::COLUMNS;
use std::time::{Duration, Instant};

const LOOKS: usize = 100;

/// What is in use and of which size; who and since when, a process does not tell.
pub fn watch(pid: i32, time: Duration) -> Result<Map> {
    let (mut heap, _) = Heap::of(pid)?;
    let start = Instant::now();
    let mut progress = Progress::new("looking");
    let mut looks = Vec::new();
    for number in 1..=LOOKS {
        let areas = areas::read_maps(pid).map_err(|error| process::cannot_look(pid, &error))?;
        looks.push(heap.pieces(&areas));
        progress.at(number as f64 / LOOKS as f64);
        let next = time.mul_f64(number as f64 / LOOKS as f64);
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    Ok(draw(&looks))
}

fn draw(looks: &[Vec<Piece>]) -> Map {
    let mut blocks = Blocks::default();
    for piece in looks.iter().flatten() {
        blocks.add(piece.start, piece.bytes);
    }
    let blocks = blocks.all();
    let mut map = Map::of_blocks(&blocks, COLUMNS);
    let blocks_a_row = (map.row_bytes >> LG_BLOCK) as usize;
    for (look, pieces) in looks.iter().enumerate() {
        let mut rows = vec![(0, [0; 65]); map.rows];
        for piece in pieces {
            add(piece, &blocks, blocks_a_row, &mut rows);
        }
        // A look is as wide as it lasted.
        for column in look * COLUMNS / looks.len()..(look + 1) * COLUMNS / looks.len() {
            for (row, (live, by_size)) in rows.iter().enumerate().filter(|(_, (live, _))| *live > 0) {
                let most = (0..by_size.len()).max_by_key(|lg| by_size[*lg]).unwrap_or(0);
                let cell = row * COLUMNS + column;
                map.occupancy[cell] = (255 * live / map.row_bytes).clamp(1, 255) as u8;
                map.class[cell] = 1 + most as u8;
            }
        }
    }
    map
}

/// Spreads a piece over the rows that it lies in, evenly.
fn add(piece: &Piece, blocks: &[u64], blocks_a_row: usize, rows: &mut [(u64, [u64; 65])]) {
    let block_bytes = 1u64 << LG_BLOCK;
    let count = piece.bytes.div_ceil(block_bytes).max(1);
    let Ok(first) = blocks.binary_search(&(piece.start >> LG_BLOCK)) else {
        return;
    };
    let lg = piece.size.max(1).ilog2() as usize;
    for index in first..(first + count as usize).min(blocks.len()) {
        let (live, by_size) = &mut rows[index / blocks_a_row];
        *live += piece.live / count;
        by_size[lg] += piece.live / count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_a_column() {
        let slab = |start: u64, live| Piece {
            start,
            bytes: 8192,
            live,
            size: 64,
        };
        let map = draw(&[vec![slab(0x10000, 8192)], vec![slab(0x10000, 4096), slab(0x40000, 64)]]);
        assert_eq!((map.rows, map.columns, map.row_bytes), (4, COLUMNS, 4096));
        let at = |row: usize, column: usize| map.occupancy[row * COLUMNS + column];
        assert_eq!((at(0, 0), at(1, 0), at(2, 0)), (255, 255, 0));
        assert_eq!((at(0, COLUMNS - 1), at(2, COLUMNS - 1)), (127, 1));
        assert_eq!(map.class[0], 1 + 6);
        assert!(map.gap_before[2] && !map.gap_before[1]);
    }
}
