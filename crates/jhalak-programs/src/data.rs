//! Numbers for a program's buffers, and whether what it computed is right. Whoever runs programs
//! fills, runs and compares with these.

use half::bf16;

use crate::program::{Buffer, Element, Program, Use};
use crate::reference::Meaning;

/// Codes of e4m3 that are not numbers.
const E4M3_NAN: u8 = 0x7f;

impl Element {
    /// The bytes of numbers in memory, each rounded to the nearest that there is.
    pub fn encode(self, values: &[f64]) -> Vec<u8> {
        match self {
            Element::E4m3 => values.iter().map(|value| e4m3_of(*value)).collect(),
            Element::Bf16 => {
                values.iter().flat_map(|value| bf16::from_f64(*value).to_le_bytes()).collect()
            }
            Element::F32 => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        }
    }

    /// The numbers that bytes in memory stand for.
    pub fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let number = |bytes: &[u8]| match *bytes {
            [byte] => e4m3_value(byte),
            [a, b] => bf16::from_le_bytes([a, b]).to_f64(),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
            _ => f64::NAN,
        };
        bytes.chunks(self.bytes() as usize).map(number).collect()
    }
}

fn e4m3_value(byte: u8) -> f64 {
    if byte & E4M3_NAN == E4M3_NAN {
        return f64::NAN;
    }
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-9),
        _ => (8.0 + mantissa) * 2f64.powi(exponent - 10),
    };
    if byte & 0x80 == 0 { size } else { -size }
}

fn e4m3_of(value: f64) -> u8 {
    let sign = if value < 0.0 { 0x80 } else { 0 };
    let size = value.abs();
    // Codes ascend with what they stand for.
    let (mut below, mut above) = (0, E4M3_NAN - 1);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if e4m3_value(middle) <= size { below = middle } else { above = middle }
    }
    let upper = e4m3_value(above) - size < size - e4m3_value(below);
    sign | if upper { above } else { below }
}

impl Program {
    /// Numbers for the input buffers, in the order of the launch: quarters from -2 to 2, which every
    /// element type holds exactly, so that sums of products are exact too.
    pub fn inputs(&self, seed: u64) -> Vec<Vec<f64>> {
        let mut state = seed;
        let mut quarter = |_| {
            // A linear congruential generator (Knuth, MMIX); its upper bits are the good ones.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 17) as f64 / 4.0 - 2.0
        };
        let inputs = self.launch.buffers.iter().filter(|buffer| buffer.usage == Use::Input);
        inputs.map(|buffer| (0..buffer.len).map(&mut quarter).collect()).collect()
    }

    /// The place of the output among the launch's buffers, and the buffer.
    pub fn output(&self) -> (usize, Buffer) {
        let mut buffers = self.launch.buffers.iter().copied().enumerate();
        buffers.find(|(_, buffer)| buffer.usage != Use::Input).expect("a program has an output")
    }

    /// Whether the output is right, given the inputs that [`inputs`](Self::inputs) made: sums and
    /// products of such numbers are exact, then rounded once to the output's type; only powers and
    /// quotients may be off by a little.
    ///
    /// # Errors
    ///
    /// The first element that is not, in words.
    pub fn judge(&self, inputs: &[Vec<f64>], output: &[f64]) -> Result<(), String> {
        let element = self.output().1.element;
        let expected = element.decode(&element.encode(&self.meaning.expected(inputs)));
        if expected.len() != output.len() {
            return Err(format!("{} elements, expected {}", output.len(), expected.len()));
        }
        let relative = match self.meaning {
            Meaning::RowSoftmax { .. } => 1e-5,
            Meaning::Sum | Meaning::ColumnSums { .. } | Meaning::Product { .. } => 0.0,
        };
        // Not a number is not close to anything.
        let close =
            |found: f64, expected: f64| (found - expected).abs() <= relative * expected.abs();
        let mut pairs = output.iter().zip(&expected).enumerate();
        match pairs.find(|(_, (found, expected))| !close(**found, **expected)) {
            None => Ok(()),
            Some((place, (found, expected))) => {
                Err(format!("element {place} is {found}, expected {expected}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_e4m3_is_its_own_nearest() {
        for byte in (0..=255u8).filter(|byte| byte & E4M3_NAN != E4M3_NAN && *byte != 0x80) {
            assert_eq!(e4m3_of(e4m3_value(byte)), byte);
        }
        assert_eq!([0x38, 0x7e, 0x01].map(e4m3_value), [1.0, 448.0, 1.0 / 512.0]);
        assert!(e4m3_value(0xff).is_nan());
    }

    #[test]
    fn quarters_survive_every_element_type() {
        let quarters: Vec<f64> = (0..17).map(|i| f64::from(i) / 4.0 - 2.0).collect();
        for element in [Element::E4m3, Element::Bf16, Element::F32] {
            assert_eq!(element.decode(&element.encode(&quarters)), quarters);
        }
    }

    #[test]
    fn a_wrong_element_is_named() {
        let program = crate::vector_add(jhalak_ptx::Target::Sm75, 3).unwrap();
        let inputs = [vec![1.0, 2.0, 3.0], vec![0.5, 0.5, 0.5]];
        assert_eq!(program.judge(&inputs, &[1.5, 2.5, 3.5]), Ok(()));
        let wrong = program.judge(&inputs, &[1.5, f64::NAN, 3.5]).unwrap_err();
        assert_eq!(wrong, "element 1 is NaN, expected 2.5");
        assert!(program.judge(&inputs, &[1.5]).is_err());
    }

    #[test]
    fn inputs_are_quarters_and_differ_by_seed() {
        let program = crate::vector_add(jhalak_ptx::Target::Sm75, 100).unwrap();
        let inputs = program.inputs(1);
        assert_eq!(inputs.len(), 2);
        assert!(inputs.iter().flatten().all(|x| x.abs() <= 2.0 && (x * 4.0).fract() == 0.0));
        assert_ne!(inputs, program.inputs(2));
    }
}
