//! The subset of JSON path that printer columns use: `.spec.a`, `['b']`, `[0]`, `[*]`, and
//! `[?(@.type=="Ready")]`.

use serde_json::Value;

/// The values at a path.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![object];
    let mut rest = path.trim();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some(end) = closing(inner) else { return Vec::new() };
            let step = &inner[..end];
            rest = &inner[end + 1..];
            found = found.into_iter().flat_map(|value| bracket(value, step)).collect();
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            // Dots in keys are escaped.
            let mut field = String::new();
            let mut letters = rest.char_indices();
            let mut end = rest.len();
            while let Some((index, letter)) = letters.next() {
                match letter {
                    '\\' => field.extend(letters.next().map(|(_, letter)| letter)),
                    '.' | '[' => {
                        end = index;
                        break;
                    }
                    _ => field.push(letter),
                }
            }
            if end == 0 && field.is_empty() {
                continue;
            }
            rest = &rest[end..];
            found = found.into_iter().filter_map(|value| value.get(&field)).collect();
        }
    }
    found
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (None, ']') => return Some(index),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    let unquoted = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    if step == "*" {
        return value.as_array().into_iter().flatten().collect();
    }
    if let Some(filter) = step.strip_prefix("?(@.").and_then(|rest| rest.strip_suffix(')')) {
        let Some((field, wanted)) = filter.split_once("==") else { return Vec::new() };
        let (field, wanted) = (field.trim(), unquoted(wanted));
        let fits = |item: &&Value| {
            let found = find(item, field);
            found.first().is_some_and(|found| {
                found.as_str().map_or_else(|| found.to_string() == wanted, |text| text == wanted)
            })
        };
        return value.as_array().into_iter().flatten().filter(fits).collect();
    }
    if let Ok(index) = step.parse::<i64>() {
        let Some(list) = value.as_array() else { return Vec::new() };
        let index = usize::try_from(index)
            .or_else(|_| usize::try_from(i64::try_from(list.len()).unwrap_or(0) + index));
        return index.ok().and_then(|index| list.get(index)).into_iter().collect();
    }
    value.get(unquoted(step)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let object = json!({
            "spec": {"a": 1, "b.c": 2, "list": [{"x": 1}, {"x": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, wanted) in [
            (".spec.a", vec![json!(1)]),
            (".spec['b.c']", vec![json!(2)]),
            (".spec.b\\.c", vec![json!(2)]),
            (".spec.list[*].x", vec![json!(1), json!(2)]),
            (".spec.list[-1].x", vec![json!(2)]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".spec.missing", vec![]),
        ] {
            assert_eq!(find(&object, path), wanted.iter().collect::<Vec<_>>(), "{path}");
        }
    }
}
