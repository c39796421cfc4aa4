//! Races as tables: events with their times, and the expected actions, in one file for each set of rules in
//! `tests/tables/`. `tests/tables/README.md` describes the format of a table.

#![allow(clippy::disallowed_methods)] // Tables are files.

use std::path::Path;
use std::time::Duration;

use hawser_race::{
    Action, AttemptOutcome, Candidate, CandidateId, Connectionless, Event, Failure, FailureReason, Family,
    Handshake, Knowledge, Profile, Question, Questions, Race, Request, Security, ServiceParameters,
};
use hawser_time::Instant;

/// The minimum number of cases; fewer mean that files are missing.
const MIN_CASES: usize = 60;

#[test]
fn races_match_the_tables() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables");
    let (mut cases, mut wrong) = (0, Vec::new());
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the tables")
        .flatten()
        .map(|e| e.path())
        .collect();
    files.sort();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "txt"))
    {
        let text = std::fs::read_to_string(file).expect("a table");
        for case in text.split("\n== ").skip(1) {
            cases += 1;
            if let Err(error) = Case::default().play(case) {
                wrong.push(format!(
                    "{}: {error}",
                    file.file_name().unwrap_or_default().to_string_lossy()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(cases >= MIN_CASES, "{cases} cases");
    println!("{cases} cases");
}

#[derive(Default)]
struct Case {
    profile: Option<Profile>,
    request: Request,
    questions: Questions,
    candidates: Vec<(String, Candidate)>,
    race: Option<Race>,
    wake: Option<u64>,
    ended: usize,
}

type Outcomes<T = ()> = Result<T, String>;

impl Case {
    fn play(mut self, text: &str) -> Outcomes {
        let (title, lines) = text.split_once('\n').unwrap_or((text, ""));
        for line in lines
            .lines()
            .map(|line| line.split(" #").next().unwrap_or_default().trim())
        {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.line(line)
                .map_err(|error| format!("{title}: `{line}`: {error}"))?;
        }
        if self.ended > 1 {
            return Err(format!("{title}: {} ends", self.ended));
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Outcomes {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0].parse::<u64>().is_ok() {
            return self.step(line);
        }
        match words[..] {
            ["profile", name] => self.profile = Some(Profile::by_name(name).ok_or("no such profile")?),
            ["asks", ref kinds @ ..] => {
                for kind in kinds {
                    match question(kind).ok_or("no such question")? {
                        Question::Ipv4 => self.questions.ipv4 += 1,
                        Question::Ipv6 => self.questions.ipv6 += 1,
                        Question::Service => self.questions.service += 1,
                    }
                }
            }
            ["request", ref terms @ ..] => terms.iter().try_for_each(|term| self.request(term))?,
            ["set", field, value] => self.set(field, value)?,
            [name, transport, family, ref traits @ ..] => {
                let candidate = candidate(self.candidates.len(), transport, family, traits)?;
                self.candidates.push((name.to_owned(), candidate));
            }
            _ => return Err("not understood".to_owned()),
        }
        Ok(())
    }

    fn request(&mut self, term: &str) -> Outcomes {
        match term.split_once('=') {
            Some(("security", level)) => self.request.security = security(level)?,
            Some(("deadline", ms)) => self.request.deadline = milliseconds(ms)?,
            Some(("connectionless", "last-resort")) => {
                self.request.connectionless = Connectionless::LastResort;
            }
            Some(("connectionless", "admit")) => self.request.connectionless = Connectionless::Admit,
            _ => return Err(format!("no such term `{term}`")),
        }
        Ok(())
    }

    /// Changes a field of the profile, by its name in documents.
    fn set(&mut self, field: &str, value: &str) -> Outcomes {
        let profile = self.profile.as_ref().ok_or("no profile yet")?;
        let mut document = serde_json::to_value(profile).map_err(|error| error.to_string())?;
        document[field] = serde_json::from_str(value).map_err(|error| error.to_string())?;
        self.profile = Some(serde_json::from_value(document).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn step(&mut self, line: &str) -> Outcomes {
        let (left, expected) = line.split_once("=>").ok_or("no `=>`")?;
        let words: Vec<&str> = left.split_whitespace().collect();
        let now: u64 = words[0].parse().map_err(|_| "no time")?;
        let event = self.event(&words[1..])?;
        if event == Event::Wake && self.wake != Some(now) {
            return Err(format!("it wants to be woken at {:?}", self.wake));
        }
        let (profile, request, questions) = (self.profile.clone(), self.request.clone(), self.questions);
        let race = self.race.get_or_insert_with(|| {
            Race::new(
                profile.unwrap_or(Profile::RFC8305),
                request,
                questions,
                Instant::ORIGIN,
            )
        });
        let actions = race.on(event, Instant::after(Duration::from_millis(now)));
        let mut taken = Vec::new();
        for action in &actions {
            if let Action::Wake(at) = action {
                self.wake = Some(at.since_origin().as_millis() as u64);
            }
            self.ended += usize::from(matches!(action, Action::Won(_) | Action::AllFailed(_)));
            taken.push(self.words_of(action));
        }
        let expected: Vec<&str> = expected
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty() && *word != "-")
            .collect();
        if !expected.iter().any(|word| word.starts_with("wake")) {
            taken.retain(|word| !word.starts_with("wake"));
        }
        match taken == expected {
            true => Ok(()),
            false => Err(format!("its actions are `{}`", taken.join(", "))),
        }
    }

    fn event(&self, words: &[&str]) -> Outcomes<Event> {
        let id = |name: &str| self.named(name).map(|candidate| candidate.id);
        Ok(match words {
            ["found", rest @ ..] => {
                let kind = rest.first().and_then(|word| question(word));
                let names = &rest[usize::from(kind.is_some())..];
                let candidates = names
                    .iter()
                    .map(|name| self.named(name).cloned())
                    .collect::<Outcomes<_>>()?;
                Event::Found { question: kind, candidates }
            }
            ["asked", kind] => Event::Asked(question(kind).ok_or("no such question")?),
            ["missing", kind, why] => Event::Missing {
                question: question(kind).ok_or("no such question")?,
                why: failure(why)?,
            },
            ["withdraw", names @ ..] => {
                Event::Withdrawn(names.iter().map(|name| id(name)).collect::<Outcomes<_>>()?)
            }
            ["ranked", ranks @ ..] => {
                let rank = |word: &&str| match word.split_once('=') {
                    None => Ok((id(word)?, None)),
                    Some((name, priority)) => {
                        let priority = priority.parse().map_err(|_| "no priority")?;
                        Ok((id(name)?, Some(service(priority, true))))
                    }
                };
                Event::Ranked(ranks.iter().map(rank).collect::<Outcomes<_>>()?)
            }
            ["connected", name] => Event::Connected(id(name)?),
            ["established", name] => Event::Established(id(name)?),
            ["failed", name, why] => Event::Failed(id(name)?, failure(why)?),
            ["network"] => Event::NetworkChanged { gone: None },
            ["network", gone] => Event::NetworkChanged { gone: Some((*gone).into()) },
            ["cancel"] => Event::Cancelled,
            ["wake"] => Event::Wake,
            _ => return Err("no such event".to_owned()),
        })
    }

    fn named(&self, name: &str) -> Outcomes<&Candidate> {
        let found = self.candidates.iter().find(|(other, _)| other == name);
        found
            .map(|(_, candidate)| candidate)
            .ok_or_else(|| format!("no candidate `{name}`"))
    }

    fn words_of(&self, action: &Action) -> String {
        let name = |id: &CandidateId| {
            self.candidates
                .get(id.0 as usize)
                .map_or("?".to_owned(), |(name, _)| name.clone())
        };
        match action {
            Action::Start(id) => format!("start {}", name(id)),
            Action::Cancel(id) => format!("cancel {}", name(id)),
            Action::Won(id) => format!("won {}", name(id)),
            Action::Probe(id) => format!("probe {}", name(id)),
            Action::Wake(at) => format!("wake {}", at.since_origin().as_millis()),
            Action::Record(id, AttemptOutcome::Won { took }) => {
                format!("record {} won {}", name(id), took.as_millis())
            }
            Action::Record(id, AttemptOutcome::Lost { had_a_head_start, .. }) => {
                format!(
                    "record {} lost{}",
                    name(id),
                    if *had_a_head_start { " early" } else { "" }
                )
            }
            Action::Record(id, AttemptOutcome::Failed(why)) => format!("record {} {}", name(id), word(*why)),
            Action::AllFailed(defeat) => {
                let why = match defeat.why {
                    FailureReason::Exhausted => "exhausted",
                    FailureReason::Deadline => "deadline",
                    FailureReason::Cancelled => "cancelled",
                };
                let candidates = defeat
                    .candidates
                    .iter()
                    .map(|(id, why)| format!("{}:{}", name(id), word(*why)));
                let questions = defeat.questions.iter().map(|(kind, why)| {
                    let kind = match kind {
                        Question::Ipv4 => "A",
                        Question::Ipv6 => "AAAA",
                        Question::Service => "HTTPS",
                    };
                    format!("{kind}:{}", word(*why))
                });
                let all: Vec<String> = candidates.chain(questions).collect();
                format!("defeat {why} {}", all.join(" ")).trim_end().to_owned()
            }
        }
    }
}

fn candidate(number: usize, transport: &str, family: &str, traits: &[&str]) -> Outcomes<Candidate> {
    let mut made = Candidate::new(CandidateId(number as u32), transport, format!("host {number}"));
    made.family = match family {
        "v4" => Family::Ipv4,
        "v6" => Family::Ipv6,
        _ => return Err(format!("no family `{family}`")),
    };
    for one in traits {
        let number = |text: &str| text.parse().map_err(|_| format!("no number in `{one}`"));
        match one.split_once('=').unwrap_or((one, "")) {
            ("prio", value) => made.priority = number(value)?,
            ("rank", value) => made.rank = number(value)?,
            ("rtt", value) => made.round_trip = Some(milliseconds(value)?),
            ("svc", value) => made.service = Some(service(number(value)?, false)),
            ("choice", value) => made.service = Some(service(number(value)?, true)),
            ("if", value) => made.interface = value.into(),
            ("to", value) => made.remote = value.into(),
            ("sec", value) => made.security = security(value)?,
            ("tls", "") => (made.handshake, made.security) = (Handshake::Secure, Security::Authenticated),
            ("udp", "") => made.handshake = Handshake::Connectionless,
            ("last", "") => made.is_last_resort = true,
            ("fallback", "") => made.is_fallback = true,
            ("known", value) => made.known = knowledge(value)?,
            _ => return Err(format!("no trait `{one}`")),
        }
    }
    Ok(made)
}

fn service(priority: u16, is_choice: bool) -> ServiceParameters {
    ServiceParameters { priority, is_choice }
}

fn knowledge(text: &str) -> Outcomes<Knowledge> {
    Ok(match text.split_once(':').unwrap_or((text, "")) {
        ("won", took) => Knowledge::Won { took: milliseconds(took)? },
        ("lost", probe) => Knowledge::Lost { probe: probe == "due" },
        ("failed", _) => Knowledge::Failed,
        ("blocked", probe) => Knowledge::Blocked { probe: probe == "due" },
        _ => return Err(format!("no knowledge `{text}`")),
    })
}

fn security(text: &str) -> Outcomes<Security> {
    serde_json::from_str(&format!("\"{text}\"")).map_err(|_| format!("no security `{text}`"))
}

fn failure(text: &str) -> Outcomes<Failure> {
    serde_json::from_str(&format!("\"{text}\"")).map_err(|_| format!("no failure `{text}`"))
}

fn word(failure: Failure) -> String {
    serde_json::to_string(&failure)
        .unwrap_or_default()
        .trim_matches('"')
        .to_owned()
}

fn question(text: &str) -> Option<Question> {
    match text {
        "A" => Some(Question::Ipv4),
        "AAAA" => Some(Question::Ipv6),
        "HTTPS" => Some(Question::Service),
        _ => None,
    }
}

fn milliseconds(text: &str) -> Outcomes<Duration> {
    text.parse()
        .map(Duration::from_millis)
        .map_err(|_| format!("no milliseconds in `{text}`"))
}
