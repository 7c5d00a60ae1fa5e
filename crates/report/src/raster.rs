//! Pictures as PNG.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree, fontdb};
use thiserror::Error;

use crate::picture::Picture;

/// Dots of the PNG for each unit of the picture: three make a column of a page at 300 dpi.
const SCALE: f32 = 3.0;
/// The family that the picture's text is drawn in. It is in the binary (the crate `dejavu`: the
/// DejaVu fonts, free to use and to embed), so that a machine without fonts draws the same.
const FAMILY: &str = "DejaVu Sans";

/// Why a picture could not be drawn.
#[derive(Debug, Error)]
pub enum RasterError {
    /// The picture is no SVG that can be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Svg(#[from] usvg::Error),
    /// Its size is none.
    #[error("the picture cannot be drawn: its size of {0} × {1} is none")]
    Size(u32, u32),
    /// It could not be encoded.
    #[error("the picture cannot be encoded: {0}")]
    Encode(String),
}

/// Draws a picture as PNG, at three dots a unit. No font of the system is asked: the same
/// picture gives the same bytes everywhere.
///
/// # Errors
/// When it is no SVG or too large, which [`crate::pictures`] never makes.
pub fn png(picture: &Picture) -> Result<Vec<u8>, RasterError> {
    let mut fonts = fontdb::Database::new();
    for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
        fonts.load_font_source(fontdb::Source::Binary(Arc::new(font)));
    }
    fonts.set_sans_serif_family(FAMILY);
    let options = Options {
        font_family: FAMILY.to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(&picture.svg, &options)?;
    let size = tree.size();
    let dots = |units: f32| (units * SCALE).ceil() as u32;
    let (width, height) = (dots(size.width()), dots(size.height()));
    let mut pixels = Pixmap::new(width, height).ok_or(RasterError::Size(width, height))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|why| RasterError::Encode(why.to_string()))
}
