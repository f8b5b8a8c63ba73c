//! The layout of shared memory: named, aligned regions.
//!
//! Regions follow each other in the order in which a kernel asks for them. Those of known size at
//! compile time may be static (48 KiB at most); larger ones are dynamic, and the launch says how
//! many bytes there are.

/// The most static shared memory that a block can have, in bytes.
const MAX_STATIC_BYTES: u32 = 48 * 1024;
/// The strongest alignment a region can ask for, in bytes: one pattern of the 128-byte swizzle.
const MAX_ALIGN: u32 = 1024;

/// Which of a kernel's two pieces of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Declared with its size in the kernel.
    Static,
    /// Sized by the launch.
    Dynamic,
}

/// A piece of a block's shared memory, as an instruction addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Static or dynamic.
    pub placement: Placement,
    /// The first byte's place within the static or the dynamic memory.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// The regions of a kernel's static or dynamic shared memory.
#[derive(Clone, Debug)]
pub struct SharedLayout {
    placement: Placement,
    regions: Vec<(String, Region)>,
    bytes: u32,
    align: u32,
}

impl SharedLayout {
    pub(crate) fn new(placement: Placement) -> Self {
        SharedLayout { placement, regions: Vec::new(), bytes: 0, align: 16 }
    }

    /// Appends a region. The error is the rule that it would break.
    pub(crate) fn region(
        &mut self,
        name: &str,
        bytes: u32,
        align: u32,
    ) -> Result<Region, &'static str> {
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err("a region's alignment is a power of two, at most 1024 bytes");
        }
        if self.regions.iter().any(|(other, _)| other == name) {
            return Err("a region's name is its own");
        }
        let end = self.bytes.checked_next_multiple_of(align).and_then(|o| o.checked_add(bytes));
        let Some(end) = end.filter(|end| *end <= i32::MAX.cast_unsigned()) else {
            return Err("offsets in shared memory are below 2^31");
        };
        if self.placement == Placement::Static && end > MAX_STATIC_BYTES {
            return Err("static shared memory is at most 48 KiB; the dynamic kind can be larger");
        }
        let region = Region { placement: self.placement, offset: end - bytes, bytes };
        self.bytes = end;
        self.align = self.align.max(align);
        self.regions.push((name.to_owned(), region));
        Ok(region)
    }

    /// Every region with its name, in the order of their offsets.
    pub fn regions(&self) -> impl Iterator<Item = (&str, Region)> {
        self.regions.iter().map(|(name, region)| (name.as_str(), *region))
    }

    /// The region of a name.
    pub fn get(&self, name: &str) -> Option<Region> {
        self.regions().find(|(other, _)| *other == name).map(|(_, region)| region)
    }

    /// Bytes from the begin of the first region to the end of the last.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Alignment of the whole, in bytes: that of the strictest region, at least 16.
    pub fn align(&self) -> u32 {
        self.align
    }
}
