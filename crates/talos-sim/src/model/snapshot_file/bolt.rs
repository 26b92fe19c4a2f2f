//! The file format of bbolt, as far as a file that is written once needs it.
//!
//! A file is a sequence of pages of 4 KiB. Pages 0 and 1 both describe the file; page 2 lists free
//! pages, of which there are none; page 3 is the root, a leaf whose values are the buckets; each
//! bucket has its own leaf. A leaf larger than a page overflows into the following ones.

const PAGE: usize = 4096;
const PAGE_HEADER: usize = 16;
const ELEMENT_HEADER: usize = 16;

const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREELIST: u16 = 0x10;

/// An element of a leaf whose value is a bucket.
const IS_BUCKET: u32 = 0x01;

const MAGIC: u32 = 0xed0c_daed;
const FORMAT: u32 = 2;

/// The transaction that wrote the file; its meta page is the newer one.
const TRANSACTION: u64 = 3;

const FREELIST_PAGE: u64 = 2;
const ROOT_PAGE: u64 = 3;

struct Element {
    flags: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A file with these buckets. Names and keys may be in any order.
pub(super) fn write(mut buckets: Vec<(&str, super::Bucket)>) -> Vec<u8> {
    buckets.sort_by_key(|(name, _)| *name);
    let mut leaves = Vec::new();
    let mut root = Vec::new();
    // The root is one page: there are ten buckets of a few bytes each.
    let mut next = ROOT_PAGE + 1;
    for (name, mut entries) in buckets {
        entries.sort();
        let elements: Vec<Element> =
            entries.into_iter().map(|(key, value)| Element { flags: 0, key, value }).collect();
        let leaf = leaf(next, &elements);
        root.push(Element {
            flags: IS_BUCKET,
            key: name.as_bytes().to_vec(),
            value: bucket(next).to_vec(),
        });
        next += pages(leaf.len());
        leaves.push(leaf);
    }
    let mut file = meta(0, TRANSACTION - 1, next);
    file.extend(meta(1, TRANSACTION, next));
    file.extend(page(FREELIST_PAGE, FREELIST, 0, &[]));
    let root = leaf(ROOT_PAGE, &root);
    debug_assert_eq!(root.len(), PAGE);
    file.extend(root);
    for leaf in leaves {
        file.extend(leaf);
    }
    file
}

fn pages(length: usize) -> u64 {
    u64::try_from(length / PAGE).unwrap_or(0)
}

/// A bucket: its root page, and its sequence number.
fn bucket(root: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&root.to_le_bytes());
    value
}

fn leaf(id: u64, elements: &[Element]) -> Vec<u8> {
    let mut headers = Vec::new();
    let mut data = Vec::new();
    for (place, element) in elements.iter().enumerate() {
        let Element { flags, key, value } = element;
        // Positions count from the header of the element itself.
        let position = (elements.len() - place) * ELEMENT_HEADER + data.len();
        for number in [*flags, small(position), small(key.len()), small(value.len())] {
            headers.extend(number.to_le_bytes());
        }
        data.extend_from_slice(key);
        data.extend_from_slice(value);
    }
    headers.extend(data);
    page(id, LEAF, elements.len(), &headers)
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a simulated cluster's database is far below 4 GiB")
}

fn meta(id: u64, transaction: u64, high_water: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for number in [MAGIC, FORMAT, small(PAGE), 0] {
        meta.extend(number.to_le_bytes());
    }
    meta.extend(bucket(ROOT_PAGE));
    for number in [FREELIST_PAGE, high_water, transaction] {
        meta.extend(number.to_le_bytes());
    }
    meta.extend(fnv(&meta).to_le_bytes());
    page(id, META, 0, &meta)
}

/// FNV-1a with 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A page with its header, padded with zeros.
fn page(id: u64, flags: u16, count: usize, content: &[u8]) -> Vec<u8> {
    let length = (PAGE_HEADER + content.len()).div_ceil(PAGE) * PAGE;
    let count = u16::try_from(count).expect("a simulated cluster has fewer keys than a leaf holds");
    let mut page = Vec::with_capacity(length);
    page.extend(id.to_le_bytes());
    page.extend(flags.to_le_bytes());
    page.extend(count.to_le_bytes());
    page.extend(small(length / PAGE - 1).to_le_bytes());
    page.extend_from_slice(content);
    page.resize(length, 0);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn a_large_leaf_overflows_into_the_following_pages() {
        let entries =
            (0..200_u64).map(|number| (number.to_be_bytes().to_vec(), vec![1; 100])).collect();
        let file = write(vec![("key", entries), ("meta", Vec::new())]);
        let overflow = u32::from_le_bytes(file[4 * PAGE + 12..4 * PAGE + 16].try_into().unwrap());
        assert_eq!(overflow, 6);
        assert_eq!(file.len(), (4 + 7 + 1) * PAGE);
    }
}
