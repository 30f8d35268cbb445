//! What `data/make.py` measures with: reads lines of `code<TAB>PROJ string<TAB>x<TAB>y` and writes, for each, longitude and latitude,
//! or `-` where there is no such place. Lines of one string should stand together.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};

use hexfloe_crs::Operation;

fn main() -> Result<(), Box<dyn Error>> {
    let mut last: Option<(String, Option<Operation>)> = None;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut fields = line.split('\t').skip(1);
        let mut field = || fields.next().ok_or("a line needs four fields");
        let (definition, x, y) = (field()?, field()?.parse()?, field()?.parse()?);
        if last.as_ref().is_none_or(|(known, _)| known != definition) {
            last = Some((definition.to_owned(), Operation::new(definition).ok()));
        }
        match last.as_ref().and_then(|(_, operation)| operation.as_ref()?.lon_lat([x, y])) {
            Some([lon, lat]) => writeln!(out, "{lon}\t{lat}")?,
            None => writeln!(out, "-")?,
        }
    }
    out.flush()?;
    Ok(())
}
