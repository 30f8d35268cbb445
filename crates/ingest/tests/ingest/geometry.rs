//! A geometry column in the table's files.

use arrow::array::AsArray;
use rstest::rstest;

use crate::lake::{Lake, column, footer, job};

const STORED: &str = r#"
[geometry]
lat = "lat"
lon = "lon"
store = "wkb"
store_column = "place"
"#;

fn geo(file: &iceberg::spec::DataFile) -> serde_json::Value {
    let footer = footer(file);
    let pairs = footer.file_metadata().key_value_metadata().unwrap();
    let geo = pairs.iter().find(|pair| pair.key == "geo").unwrap();
    serde_json::from_str(geo.value.as_ref().unwrap()).unwrap()
}

#[rstest]
#[case::one_file("", &[[-70.0, -33.0, 151.0, 48.0]])]
// The second zone has the first file of the first ended, for want of memory.
#[case::by_zone(
    "partition = [\"zone\"]",
    &[[11.5, 48.0, 11.5, 48.0], [-70.0, -20.5, -70.0, -20.5], [12.0, -33.0, 151.0, 0.0]]
)]
#[tokio::test(flavor = "multi_thread")]
async fn the_box_in_the_footer_is_that_of_the_files_points(#[case] partition: &str, #[case] boxes: &[[f64; 4]]) {
    let lake = Lake::new().await;
    // With a memory of one byte each file becomes a row group of its own: the box is that of all of them.
    for (name, rows) in [("a", "1,1,48,11.5\n2,2,-20.5,-70\n"), ("b", "3,1,-33,151\n"), ("c", "4,1,0,12\n")] {
        lake.write(&format!("{name}.csv"), format!("id,zone,lat,lon\n{rows}"));
    }
    let report = lake.force(&job("csv", "*.csv", &format!("{partition}\n{STORED}")), &["limits.memory=\"1\""]).await;
    assert_eq!(report.unwrap().rows, 4);
    let files = lake.files().await;
    assert_eq!(files.len(), boxes.len());
    for (file, expected) in files.iter().zip(boxes) {
        let geo = geo(file);
        assert_eq!(geo["primary_column"], "place");
        let bbox: Vec<f64> =
            geo["columns"]["place"]["bbox"].as_array().unwrap().iter().filter_map(serde_json::Value::as_f64).collect();
        assert_eq!(bbox, expected);
        let place = column(file, "place");
        let place = place.as_bytes::<arrow::datatypes::GenericBinaryType<i32>>();
        assert_eq!(place.value(0).len(), 21, "a point in well-known binary");
    }
    let first = column(&files[0], "place");
    let first = first.as_binary::<i32>().value(0);
    assert_eq!((first[0], &first[1..5]), (1, [1, 0, 0, 0].as_slice()));
    assert_eq!(f64::from_le_bytes(first[5..13].try_into().unwrap()), 11.5, "longitude comes first");
    assert_eq!(f64::from_le_bytes(first[13..21].try_into().unwrap()), 48.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_has_counts_and_no_bounds_for_it() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,lat,lon\n1,48,11.5\n2,-20.5,-70\n");
    lake.run(&job("csv", "in.csv", STORED)).await.unwrap();
    let id = lake.table().await.unwrap().metadata().current_schema().field_id_by_name("place").unwrap();
    let file = &lake.files().await[0];
    assert_eq!(file.value_counts()[&id], 2);
    assert!(!file.lower_bounds().contains_key(&id) && !file.upper_bounds().contains_key(&id));
}
