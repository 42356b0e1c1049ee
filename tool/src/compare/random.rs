//! Numbers that look random and are the same every time.
//! SPDX-License-Identifier: BSD-2-Clause

/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.draw()) * end as u128) >> 64) as usize
    }

    /// Fisher and Yates: every order is as likely.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four, each comes right behind each other one in a quarter of the rounds, as it would by chance.
    #[test]
    fn everybody_follows_everybody() {
        let mut follows = [[0; 4]; 4];
        for round in 0..4000 {
            let mut order = [0, 1, 2, 3];
            SplitMix(round).shuffle(&mut order);
            for pair in order.windows(2) {
                follows[pair[0]][pair[1]] += 1;
            }
        }
        for (first, row) in follows.iter().enumerate() {
            for (second, &times) in row.iter().enumerate() {
                assert!(
                    if first == second {
                        times == 0
                    } else {
                        (880..1120).contains(&times)
                    },
                    "{follows:?}"
                );
            }
        }
    }
}
