//! Pictures as PNG.

use thiserror::Error;

use crate::picture::Picture;

#[cfg(feature = "png")]
/// Dots of the PNG for each unit of the picture: three make a column of a page at 300 dpi.
const SCALE: f32 = 3.0;
#[cfg(feature = "png")]
/// The family that the picture's text is drawn in. It is in the binary (the crate `dejavu`: the
/// DejaVu fonts, free to use and to embed), so that a machine without fonts draws the same.
const FAMILY: &str = "DejaVu Sans";

/// Why a picture could not be drawn.
#[derive(Debug, Error)]
pub enum RasterError {
    /// This build is without what draws.
    #[error(
        "this build draws no PNG: choose svg, or cargo install --path crates/bytecost --features full"
    )]
    NotBuilt,
    /// The picture is no SVG that can be drawn.
    #[error("the picture cannot be drawn: {0}")]
    Svg(String),
    /// It could not be encoded.
    #[error("the picture cannot be encoded: {0}")]
    Encode(String),
}

/// Draws a picture as PNG, at three dots a unit. No font of the system is asked: the same
/// picture gives the same bytes everywhere.
///
/// # Errors
/// When it is no SVG or too large, which [`crate::pictures`] never makes.
#[cfg(feature = "png")]
pub fn png(picture: &Picture) -> Result<Vec<u8>, RasterError> {
    use std::sync::Arc;

    use resvg::tiny_skia::{Pixmap, Transform};
    use resvg::usvg::{Options, Tree, fontdb};

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
    let tree = Tree::from_str(&picture.svg, &options);
    let tree = tree.map_err(|why| RasterError::Svg(why.to_string()))?;
    let size = tree.size();
    let dots = |units: f32| (units * SCALE).ceil() as u32;
    let (width, height) = (dots(size.width()), dots(size.height()));
    let mut pixels = Pixmap::new(width, height)
        .ok_or_else(|| RasterError::Svg(format!("its size of {width} × {height} is none")))?;
    let scale = Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    let dots = pixels.encode_png();
    dots.map_err(|why| RasterError::Encode(why.to_string()))
}

/// Always an error: what draws is not in this build.
#[cfg(not(feature = "png"))]
pub fn png(_: &Picture) -> Result<Vec<u8>, RasterError> {
    Err(RasterError::NotBuilt)
}
