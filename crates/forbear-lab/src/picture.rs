//! What all pictures have in common: an SVG in memory, and the colors of what they show.

use plotters::{coord::Shift, prelude::*};

pub(crate) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(crate) const INK: RGBColor = RGBColor(0x22, 0x2b, 0x37);
pub(crate) const FAINT: RGBColor = RGBColor(0x6b, 0x75, 0x83);
pub(crate) const RULE: RGBColor = RGBColor(0xdd, 0xe1, 0xe7);
/// A phase in which nothing happens.
pub(crate) const CALM: RGBColor = RGBColor(0xf7, 0xf8, 0xfa);
/// What reaches a backend.
pub(crate) const LOAD: RGBColor = RGBColor(0xd9, 0x4f, 0x30);
/// What it serves.
pub(crate) const GOODPUT: RGBColor = RGBColor(0x1f, 0x8a, 0x70);
/// What it could have served.
pub(crate) const MISSED: RGBColor = RGBColor(0xc6, 0xcd, 0xd6);

/// The picture as SVG, on white.
pub(crate) fn svg(width: i32, height: i32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (width as u32, height as u32)).into_drawing_area();
    // Nothing but memory is written to, and that does not fail.
    let _ = root.fill(&WHITE).and_then(|()| draw(&root)).and_then(|()| root.present());
    drop(root);
    text
}
