//! The shop's stock: a SQLite database with a handful of articles.

use std::path::Path;

/// Writes a fresh stock database to `path`. An existing file is left as it is.
pub fn create(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    rusqlite::Connection::open(path)?.execute_batch(
        "create table stock (
             sku text primary key, name text not null, warehouse text not null,
             available integer not null, price decimal(10, 2) not null
         );
         insert into stock values
             ('A-17', '保温杯 500 ml', '杭州', 128, '59.90'),
             ('A-18', '保温杯 750 ml', '杭州', 0, '79.90'),
             ('B-03', 'Desk lamp, warm white', 'Rotterdam', 12, '34.50'),
             ('B-04', 'Desk lamp, cold white', 'Rotterdam', 3, '34.50'),
             ('C-21', 'USB-C cable, 2 m', '深圳', 4210, '12.30');",
    )?;
    Ok(())
}
