//! Draws a sweep's figures over the first varying value.

use hawser::interact::svg::plot::{Axes, Group, PlotLine, bars, lines};
use hawser::runs::sweep::Table;

/// Draws each column, and returns the drawings by column name. If the values of the first axis are numbers,
/// there are lines, otherwise bars: one for each choice of the other axes.
pub(super) fn draw(table: &Table) -> Vec<(String, String)> {
    let groups = table.groups();
    let Some(x) = table.axes.first() else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    let mut places: Vec<&str> = Vec::new();
    for group in &groups {
        let name = group.choices[1..].join(", ");
        if !names.contains(&name) {
            names.push(name);
        }
        if !places.contains(&group.choices[0].as_str()) {
            places.push(&group.choices[0]);
        }
    }
    let (numbers, unit) = numbers(&places);
    let x = match unit.is_empty() {
        true => x.clone(),
        false => format!("{x} [{unit}]"),
    };
    let figure = |column: usize, place: &str, name: &str| {
        let group = groups
            .iter()
            .find(|group| group.choices[0] == place && group.choices[1..].join(", ") == name)?;
        group.figures[column]
    };
    let drawing = |(column, y): (usize, &String)| {
        let title = format!("{y} by {}", table.axes.join(", "));
        let axes = Axes { title: &title, x: &x, y };
        let svg = match &numbers {
            Some(numbers) if numbers.len() > 1 => {
                let line = |name: &String| {
                    let points = places.iter().zip(numbers);
                    let mut points: Vec<(f64, f64)> = points
                        .filter_map(|(place, number)| Some((*number, figure(column, place, name)?[0])))
                        .collect();
                    points.sort_by(|one, other| one.0.total_cmp(&other.0));
                    PlotLine { name: name.clone(), points }
                };
                lines(&axes, &names.iter().map(line).collect::<Vec<_>>())
            }
            _ => {
                let group = |place: &&str| Group {
                    name: (*place).to_owned(),
                    bars: names
                        .iter()
                        .map(|name| {
                            figure(column, place, name)
                                .map_or((0.0, 0.0, 0.0), |[mean, low, high]| (mean, low, high))
                        })
                        .collect(),
                };
                bars(&axes, &names, &places.iter().map(group).collect::<Vec<_>>())
            }
        };
        (y.clone(), svg)
    };
    table.columns.iter().enumerate().map(drawing).collect()
}

/// Parses values as numbers with a common unit. Returns the numbers, or `None`, and the unit.
fn numbers<'a>(places: &[&'a str]) -> (Option<Vec<f64>>, &'a str) {
    let split = |place: &&'a str| {
        let number = place.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        Some((number.parse().ok()?, place[number.len()..].trim()))
    };
    let parts: Option<Vec<(f64, &str)>> = places.iter().map(split).collect();
    match parts {
        Some(parts) if parts.windows(2).all(|two| two[0].1 == two[1].1) => {
            let unit = parts.first().map_or("", |part| part.1);
            (Some(parts.into_iter().map(|part| part.0).collect()), unit)
        }
        _ => (None, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_one_unit_are_parsed_as_numbers() {
        assert_eq!(numbers(&["1ms", "2.5 ms"]), (Some(vec![1.0, 2.5]), "ms"));
        assert_eq!(numbers(&["1", "-2"]), (Some(vec![1.0, -2.0]), ""));
        for other in [&["1ms", "1s"][..], &["1", "tcp"]] {
            assert_eq!(numbers(other), (None, ""));
        }
    }
}
