//! Partition values of files written before a column was promoted: they are of the narrower type still.

use iceberg::spec::{Literal, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct};

/// The values as the types of the partition fields under `schema` have them; `None` when they are so already.
///
/// Manifest writers and summaries take values of another type for broken.
pub(crate) fn under(values: &Struct, spec: &PartitionSpec, schema: &Schema) -> Option<Struct> {
    let types = spec.partition_type(schema).ok()?;
    let mut changed = false;
    let widened: Vec<Option<Literal>> = values
        .iter()
        .zip(types.fields())
        .map(|(value, field)| {
            let widened = match (value?, field.field_type.as_primitive_type()?) {
                (Literal::Primitive(PrimitiveLiteral::Int(value)), PrimitiveType::Long) => {
                    PrimitiveLiteral::Long(i64::from(*value))
                }
                (Literal::Primitive(PrimitiveLiteral::Float(value)), PrimitiveType::Double) => {
                    PrimitiveLiteral::Double(f64::from(value.0).into())
                }
                (same, _) => return Some(same.clone()),
            };
            changed = true;
            Some(Literal::Primitive(widened))
        })
        .collect();
    changed.then(|| Struct::from_iter(widened))
}

/// Whether two files are in one partition, whatever the width of their values.
pub(crate) fn is_same(one: &Struct, other: &Struct) -> bool {
    let wide = |value: Option<&Literal>| {
        value.map(|value| match value {
            Literal::Primitive(PrimitiveLiteral::Int(value)) => {
                Literal::Primitive(PrimitiveLiteral::Long(i64::from(*value)))
            }
            Literal::Primitive(PrimitiveLiteral::Float(value)) => {
                Literal::Primitive(PrimitiveLiteral::Double(f64::from(value.0).into()))
            }
            other => other.clone(),
        })
    };
    one == other || (one.fields().len() == other.fields().len() && one.iter().map(wide).eq(other.iter().map(wide)))
}
