//! The picture as pixels, with a font of its own: the machine may have none.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::{Error, Figure};

/// Pixels for each unit of the drawing, so that it is sharp on dense screens and in print.
const DENSITY: f32 = 2.0;

impl Figure {
    /// The picture of [`Figure::to_svg`], twice as many pixels wide and high, on white.
    ///
    /// Fails if a drawing in it is not well-formed.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        png(&self.to_svg()).map_err(|reason| Error::Picture { name: self.name.clone(), reason })
    }
}

fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options = Options { font_family: "Noto Sans".to_owned(), fontdb: fonts(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(DENSITY).ok_or("it has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("it is too large")?;
    pixels.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(DENSITY, DENSITY), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}

fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
        fonts.load_font_data(notosans::BOLD_TTF.to_vec());
        // For the few letters that the other has not, such as ₀ and ✓.
        fonts.load_font_data(dejavu::sans_condensed::regular().to_vec());
        fonts.set_sans_serif_family("Noto Sans");
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}
