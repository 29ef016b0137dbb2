//! Array in NumPy's format, `.npy`: its header, and a stream of its elements.

use std::io::{Read, Seek};

use super::archive::Content;

/// Kind of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    /// Signed.
    Int,
    Uint,
    Bool,
    /// Characters of 4 bytes.
    Unicode,
    Bytes,
}

/// Array whose header has been read, but not its elements.
pub(super) struct Array<'a, R: Read> {
    content: Content<'a, R>,
    kind: Kind,
    /// Number of bytes of an element.
    width: usize,
    big_endian: bool,
    /// Whether the first index runs fastest.
    fortran: bool,
    pub(super) shape: Vec<usize>,
    len: usize,
}

/// Largest number of bytes of a name.
const MAX_TEXT: usize = 1 << 20;

impl<'a, R: Read + Seek> Array<'a, R> {
    pub(super) fn open(mut content: Content<'a, R>) -> Result<Self, String> {
        const WRONG: &str = "expected an array in NumPy's format (.npy)";
        let mut start = [0; 8];
        if content.size < 12 {
            return Err(format!("the entry has {} bytes, {WRONG}", content.size));
        }
        content.fill(&mut start)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err(format!("the entry begins with other bytes, {WRONG}"));
        }
        let mut length = [0; 4];
        let length_bytes = match start[6] {
            1 => 2,
            2 | 3 => 4,
            other => return Err(format!("the array has version {other} of NumPy's format, expected 1 to 3")),
        };
        content.fill(&mut length[..length_bytes])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > 1 << 16 {
            return Err(format!("the array's header has {length} bytes, expected plain numbers or texts"));
        }
        let mut head = vec![0; length];
        content.fill(&mut head)?;
        let head = String::from_utf8_lossy(&head);
        let (kind, width, big_endian) = element(value(&head, "descr")?)?;
        let fortran = match value(&head, "fortran_order")? {
            text if text.starts_with("True") => true,
            text if text.starts_with("False") => false,
            _ => return Err("the array's header does not state its order, expected True or False".into()),
        };
        let shape = shape(value(&head, "shape")?)?;
        let len = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
        let bytes = len.and_then(|len| (len as u64).checked_mul(width as u64));
        let expected = content.size.saturating_sub((8 + length_bytes + length) as u64);
        match (len, bytes) {
            (Some(len), Some(bytes)) if bytes == expected && bytes <= content.most => {
                Ok(Self { content, kind, width, big_endian, fortran, shape, len })
            }
            _ => {
                let shape = shown(&shape);
                let declared = format!("the array's shape is {shape} with {width} bytes for each element");
                Err(format!("{declared}, but it has {expected} bytes"))
            }
        }
    }

    /// Whether the elements are whole numbers.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.kind, Kind::Int | Kind::Uint)
    }

    /// Elements as numbers.
    pub(super) fn floats(self) -> Result<Vec<f64>, String> {
        let mut numbers = allocate(self.len)?;
        self.each_float(|_, x| numbers.push(x))?;
        Ok(numbers)
    }

    /// Elements of a matrix as numbers, column by column, and the number of rows.
    pub(super) fn by_column(self) -> Result<(Vec<f64>, usize), String> {
        let rows = self.shape[0];
        if self.fortran || rows == 1 {
            return Ok((self.floats()?, rows));
        }
        allocate::<f64>(self.len)?;
        // Zeroed pages are not allocated before they are written to, as `resize` would do.
        let mut numbers = vec![0.0; self.len];
        let mut at = 0;
        self.each_float(|_, x| {
            numbers[at] = x;
            at += rows;
            // Behind the end of one row: the beginning of the next.
            at = if at >= numbers.len() { at - numbers.len() + 1 } else { at };
        })?;
        Ok((numbers, rows))
    }

    /// Passes every element to `sink`, as a number, with its index.
    pub(super) fn each_float(self, mut sink: impl FnMut(usize, f64)) -> Result<(), String> {
        let (kind, width) = (self.kind, self.width);
        match kind {
            Kind::Unicode | Kind::Bytes => return Err("the array holds texts, expected numbers".into()),
            Kind::Float if width != 4 && width != 8 => {
                return Err(format!("the array's numbers have {} bits, expected 32 or 64", 8 * width));
            }
            _ => {}
        }
        self.each(|i, bits| {
            let x = match kind {
                Kind::Float if width == 8 => f64::from_bits(bits),
                Kind::Float => f64::from(f32::from_bits(bits as u32)),
                // Whole numbers beyond 2^53 are rounded, as NumPy does.
                Kind::Int => signed(bits, width) as f64,
                _ => bits as f64,
            };
            sink(i, x);
            Ok(())
        })
    }

    /// Elements as whole numbers of 32 bits that are not negative.
    pub(super) fn integers(self) -> Result<Vec<u32>, String> {
        let (kind, width) = (self.kind, self.width);
        match kind {
            Kind::Float => return Err("the array holds fractions, expected whole numbers".into()),
            Kind::Unicode | Kind::Bytes => {
                return Err("the array holds texts, expected whole numbers".into());
            }
            _ => {}
        }
        let mut numbers = allocate(self.len)?;
        self.each(|i, bits| {
            if kind == Kind::Int && signed(bits, width) < 0 {
                let n = signed(bits, width);
                return Err(format!("element {i} is {n}, expected a whole number from 0 on"));
            }
            let too_large = |_| format!("element {i} is {bits}, expected at most {}", u32::MAX);
            numbers.push(u32::try_from(bits).map_err(too_large)?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Elements as texts.
    pub(super) fn texts(mut self) -> Result<Vec<String>, String> {
        if !matches!(self.kind, Kind::Unicode | Kind::Bytes) {
            return Err("the array holds numbers, expected texts".into());
        }
        if self.width > MAX_TEXT {
            return Err(format!("the array's texts have {} bytes each, expected names", self.width));
        }
        let mut item = vec![0; self.width];
        let mut texts = Vec::new();
        for i in 0..self.len {
            self.content.fill(&mut item)?;
            texts.push(self.text(&item).ok_or_else(|| format!("element {i} is not a text in Unicode"))?);
        }
        self.content.finish().map(|()| texts)
    }

    /// Text without its padding of zeros.
    fn text(&self, item: &[u8]) -> Option<String> {
        if self.kind == Kind::Bytes {
            let end = item.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            return String::from_utf8(item[..end].to_vec()).ok();
        }
        let number = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let letter = |&bytes: &[u8; 4]| char::from_u32(number(bytes));
        let text: Option<String> = item.as_chunks::<4>().0.iter().map(letter).collect();
        text.map(|text| text.trim_end_matches('\0').to_owned())
    }

    /// Passes the bits of every element of up to 8 bytes to `sink`, with its index.
    fn each(self, sink: impl FnMut(usize, u64) -> Result<(), String>) -> Result<(), String> {
        match self.width {
            1 => self.each_of::<1>(sink),
            2 => self.each_of::<2>(sink),
            4 => self.each_of::<4>(sink),
            _ => self.each_of::<8>(sink),
        }
    }

    fn each_of<const N: usize>(
        mut self,
        mut sink: impl FnMut(usize, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut buffer = vec![0; 1 << 16];
        let mut done = 0;
        while done < self.len {
            let n = (self.len - done).min(buffer.len() / N);
            let items = &mut buffer[..n * N];
            self.content.fill(items)?;
            for (i, item) in items.as_chunks_mut::<N>().0.iter_mut().enumerate() {
                if self.big_endian {
                    item.reverse();
                }
                let mut bytes = [0; 8];
                bytes[..N].copy_from_slice(item);
                sink(done + i, u64::from_le_bytes(bytes))?;
            }
            done += n;
        }
        self.content.finish()
    }
}

/// Signed number of `width` bytes.
fn signed(bits: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width as u32;
    (bits << unused) as i64 >> unused
}

/// Memory for a number of elements that is declared by the file, and so may be anything.
fn allocate<T>(len: usize) -> Result<Vec<T>, String> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(len).map_err(|_| format!("its {len} elements do not fit into memory"))?;
    Ok(elements)
}

/// Value of a key, and all that follows it, in a header such as
/// `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.
fn value<'a>(head: &'a str, key: &str) -> Result<&'a str, String> {
    let found = ['\'', '"'].iter().find_map(|quote| head.split_once(&format!("{quote}{key}{quote}:")));
    let missing = || format!("the array's header does not state its '{key}'");
    found.map(|(_, rest)| rest.trim_ascii_start()).ok_or_else(missing)
}

/// Kind of the elements, their width in bytes, and whether they are big-endian.
fn element(text: &str) -> Result<(Kind, usize, bool), String> {
    const EXPECTED: &str = "expected whole numbers, numbers of 32 or 64 bits, or texts";
    let quoted = text.strip_prefix(['\'', '"']).and_then(|rest| rest.split(['\'', '"']).next());
    let Some(code) = quoted else {
        return Err(format!("the array's elements have several fields, {EXPECTED}"));
    };
    let (order, code) = match code.as_bytes() {
        [order @ (b'<' | b'>' | b'|' | b'='), ..] => (*order, &code[1..]),
        _ => (b'|', code),
    };
    let unknown = || format!("the array's elements are of NumPy's type '{}', {EXPECTED}", super::shown(code));
    if code.starts_with('O') {
        return Err(format!("the array holds Python objects (pickled), {EXPECTED}"));
    }
    let (kind, digits) = code.split_at_checked(1).ok_or_else(unknown)?;
    let size: usize = digits.parse().map_err(|_| unknown())?;
    let (kind, width) = match (kind, size) {
        ("f", 2 | 4 | 8 | 16) => (Kind::Float, size),
        ("i", 1 | 2 | 4 | 8) => (Kind::Int, size),
        ("u", 1 | 2 | 4 | 8) => (Kind::Uint, size),
        ("b", 1) => (Kind::Bool, 1),
        ("U", _) => (Kind::Unicode, size.checked_mul(4).ok_or_else(unknown)?),
        ("S", _) => (Kind::Bytes, size),
        _ => return Err(unknown()),
    };
    Ok((kind, width, order == b'>'))
}

/// `(3, 4)`, `(3,)` or `()`.
fn shape(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || "the array's header does not state its shape, expected numbers in parentheses".to_owned();
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(wrong)?.0;
    let numbers = inside.split(',').map(str::trim_ascii).filter(|number| !number.is_empty());
    numbers.map(|number| number.trim_end_matches('L').parse().map_err(|_| wrong())).collect()
}

/// Shape in NumPy's notation.
pub(super) fn shown(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Header of an array in Fortran's order.
pub(super) fn head(code: &str, shape: &[usize]) -> Vec<u8> {
    let fortran = if shape.len() > 1 { "True" } else { "False" };
    let text = format!("{{'descr': '{code}', 'fortran_order': {fortran}, 'shape': {}, }}", shown(shape));
    // The elements begin at a multiple of 64 bytes.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend((length as u16).to_le_bytes());
    head.extend(format!("{text:<0$}\n", length - 1).bytes());
    head
}
