//! Runs the checks of the fuzz target `policy` on the stable toolchain: nearly valid documents with changed
//! pieces.

use fastrand::Rng;
use hawser_policy::hostile::documents;

/// A generator of documents from a seed.
struct Generator(Rng);

impl Generator {
    fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }

    fn choose<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn scalar(&mut self) -> String {
        const WORDS: &[&str] = &[
            "\"TCP\"", "\"UDP\"", "1", "1500", "true", "false", "-0.0", "1e308", "\"\"", "\"a@b\"", "0.1",
        ];
        self.choose(WORDS).to_owned()
    }

    fn value(&mut self) -> String {
        match self.below(6) {
            0 => "null".into(),
            1 => format!("[{}, {}]", self.scalar(), self.scalar()),
            2 => {
                let end = self.choose(&["5", "\"Inf\"", "1500"]);
                format!(
                    r#"{{ "start": {}, "end": {end} }}"#,
                    self.choose(&["-1", "\"-inf\"", "1"])
                )
            }
            _ => self.scalar(),
        }
    }

    fn properties(&mut self) -> String {
        const NAMES: &[&str] = &[
            "transport",
            "mtu",
            "rtt",
            "uid",
            "local_endpoint",
            "local_ip",
            "interface",
            "SO/6/1",
            "own/x",
            "__request_type",
            "SO/A/B",
        ];
        let property = |generator: &mut Self| {
            let banned = if generator.below(4) == 0 {
                format!(r#", "banned": [{}]"#, generator.value())
            } else {
                "".into()
            };
            let (score, precedence) = (generator.choose(&["0", "1", "-2.5", "1e9"]), generator.below(3));
            let value = generator.value();
            format!(r#"{{ "value": {value}, "score": {score}, "precedence": {precedence}{banned} }}"#)
        };
        let one = |generator: &mut Self| {
            let one_or_two = property(generator);
            let one_or_two = if generator.below(6) == 0 {
                format!("[{one_or_two}, {}]", property(generator))
            } else {
                one_or_two
            };
            format!(r#""{}": {one_or_two}"#, generator.choose(NAMES))
        };
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..self.below(4) {
            let text = one(self);
            seen.insert(text.split(':').next().unwrap_or_default().to_owned(), text);
        }
        format!("{{ {} }}", seen.into_values().collect::<Vec<_>>().join(", "))
    }

    fn groups(&mut self) -> String {
        match self.below(3) {
            0 => self.properties(),
            1 => format!("[[{}, {}]]", self.properties(), self.properties()),
            _ => format!(
                "[{}, [{}, {}]]",
                self.properties(),
                self.properties(),
                self.properties()
            ),
        }
    }

    fn case(&mut self) -> Vec<u8> {
        let list = |generator: &mut Self, make: fn(&mut Self, usize) -> String| {
            let items: Vec<String> = (0..generator.below(6)).map(|n| make(generator, n)).collect();
            format!("[{}]", items.join(",\n"))
        };
        let policies = list(self, |generator, n| {
            let (kind, replace) = (
                generator.choose(&["profile", "policy"]),
                generator.choose(&["true", "false"]),
            );
            let (matches, groups) = (generator.properties(), generator.groups());
            format!(
                r#"{{ "uid": "p{n}", "policy_type": "{kind}", "replace_matched": {replace}, "match": {matches}, "properties": {groups} }}"#
            )
        });
        let nodes = list(self, |generator, n| {
            let (root, link) = (
                generator.choose(&["true", "false"]),
                generator.choose(&["true", "false"]),
            );
            let expire = generator.choose(&["-1", "3", "100", "null"]);
            let wanted = if generator.below(2) == 0 {
                generator.properties()
            } else {
                format!(r#"{{ "uid": {{ "value": "n{}" }} }}"#, generator.below(6))
            };
            let groups = generator.groups();
            format!(
                r#"{{ "uid": "n{n}", "root": {root}, "link": {link}, "expire": {expire}, "match": [{wanted}], "properties": {groups} }}"#
            )
        });
        let request = format!("[{}, [{}]]", self.properties(), self.properties());
        let mut bytes = vec![self.below(256) as u8 & 0xfe];
        bytes.extend(format!("{policies}\n%\n{nodes}\n%\n{request}").bytes());
        // Occasionally, a piece is broken.
        if self.below(3) == 0 {
            for _ in 0..1 + self.below(4) {
                let place = self.below(bytes.len());
                bytes[place] = b"{}[]\",:0123e-\n%t\0\xff"[self.below(18)];
            }
        }
        bytes
    }
}

#[test]
fn random_documents_break_no_promise() {
    for seed in 1..=4_000 {
        let mut generator = Generator(Rng::with_seed(seed));
        documents(&generator.case());
    }
}
