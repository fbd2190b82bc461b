//! Makes inputs out of inputs: flips, cuts, repeats, splices, and words of the target's dictionary.

/// A source of inputs. The same start makes the same inputs.
pub(crate) struct Mutator {
    state: u64,
    dictionary: &'static [&'static str],
}

/// Bytes that matter to most parsers.
const SPECIAL: &[u8] = b"\"'\\{}[]():,;%$#&?=/.-+*<>|`~^@! \t\r\n\0\x7f\x80\xc3\xe4\xff0129aeEnNxu";

impl Mutator {
    pub(crate) fn new(seed: u64, dictionary: &'static [&'static str]) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, dictionary }
    }

    /// One new input, made from one of the seeds by one to nine changes.
    pub(crate) fn mutate(&mut self, seeds: &[Vec<u8>], longest: usize) -> Vec<u8> {
        let mut input = if seeds.is_empty() { Vec::new() } else { seeds[self.below(seeds.len())].clone() };
        for _ in 0..=self.below(8) {
            self.change(&mut input, seeds, longest);
            input.truncate(longest);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>], longest: usize) {
        let at = self.below(input.len() + 1);
        match self.below(8) {
            0 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = SPECIAL[self.below(SPECIAL.len())];
            }
            1 => input.insert(at, SPECIAL[self.below(SPECIAL.len())]),
            2 if !self.dictionary.is_empty() => {
                let word = self.dictionary[self.below(self.dictionary.len())];
                input.splice(at..at, word.bytes());
            }
            3 => {
                let length = self.below(16).min(input.len() - at);
                input.drain(at..at + length);
            }
            4 => {
                // Repetition finds what is not linear.
                let end = (at + 1 + self.below(12)).min(input.len());
                let piece = input[at..end].to_vec();
                let times = (1 << self.below(11)).min(longest / piece.len().max(1));
                input.splice(at..at, piece.repeat(times));
            }
            5 if !seeds.is_empty() => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                input.splice(at..at, other[from..].iter().copied());
            }
            6 => input.truncate(at),
            _ => {
                let byte = (self.next() & 0xff) as u8;
                input.insert(at, byte);
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    // xorshift64*: small, fast, and the same everywhere.
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
