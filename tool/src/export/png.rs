//! A picture as PNG: eight bits for red, green and blue.
//! SPDX-License-Identifier: BSD-2-Clause

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use std::io::Write;

pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    pub fn new(width: usize, height: usize, color: [u8; 3]) -> Picture {
        Picture {
            width,
            height,
            pixels: vec![color; width * height],
        }
    }

    pub fn set(&mut self, x: usize, y: usize, color: [u8; 3]) {
        self.pixels[y * self.width + x] = color;
    }

    pub fn png(&self) -> Vec<u8> {
        let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut head = Vec::new();
        head.extend((self.width as u32).to_be_bytes());
        head.extend((self.height as u32).to_be_bytes());
        head.extend([8, 2, 0, 0, 0]);
        chunk(&mut out, b"IHDR", &head);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.pixels.chunks(self.width) {
            zlib.write_all(&[0]).expect("memory can be written to");
            zlib.write_all(row.as_flattened()).expect("memory can be written to");
        }
        chunk(&mut out, b"IDAT", &zlib.finish().expect("memory can be written to"));
        chunk(&mut out, b"IEND", &[]);
        out
    }
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(kind);
    out.extend(data);
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    out.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_parts_of_a_png() {
        let mut picture = Picture::new(3, 2, [255; 3]);
        picture.set(2, 1, [1, 2, 3]);
        let bytes = picture.png();
        assert!(bytes.starts_with(b"\x89PNG"));
        assert!(bytes.ends_with(&[b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
        let at = bytes.windows(4).position(|window| window == b"IDAT").unwrap() + 4;
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&bytes[at..]), &mut plain).unwrap();
        assert_eq!((plain.len(), &plain[17..]), (20, &[1, 2, 3][..]));
    }
}
