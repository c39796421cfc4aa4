//! Every question about any text is answered, and every answer lies within the text.

use hawser_ide::hostile::ask;

use crate::workspace::programs;

const IN_PIECES: &str = "\
struct cc_t { uint64 cwnd; }\u{1e}import \"part.mtp\";
// é𝄞 beyond ASCII
event seg : NET_EVENT { uint32 len; seq<32> at; }
enum state_t : uint8 { SHUT, OPEN }
context conn { part cc_t cc; list<seg_info, 4> all; state_t state; }
struct seg_info { uint32 len; }
void count(seg ev, conn c) {
    for (one in c.all, 4) c.cc.cwnd += min(one.len, ev.len);
    c.state = state_t::OPEN;
    emit raise(
}
dispatch d { seg -> {count}; }
deploy { register_ep_chains(d); }
";

#[test]
fn queries_at_every_byte_of_a_broken_program_are_answered() {
    for byte in 0..=IN_PIECES.len() + 2 {
        ask(IN_PIECES, byte);
    }
    for text in [
        "",
        "\u{feff}",
        "{",
        "\"",
        "/*",
        "//=",
        "import",
        "import \"",
        "a.b.",
        "é",
        "\r\n\r",
        "x{a:",
    ] {
        (0..4).for_each(|byte| ask(text, byte));
    }
}

/// Mutates the programs of the repository, each mutation with its seed.
#[test]
fn mutated_programs_can_be_asked_about() {
    let paths = [programs("examples"), programs("lang/tests/fail")].concat();
    let texts: Vec<String> = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a text"))
        .collect();
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut characters: Vec<char> = texts[rng.usize(..texts.len())].chars().collect();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..characters.len().max(1)).min(characters.len());
            let end = (at + rng.usize(..30)).min(characters.len());
            let other: Vec<char> = texts[rng.usize(..texts.len())].chars().collect();
            let from = rng.usize(..other.len());
            let piece = &other[from..(from + rng.usize(..30)).min(other.len())];
            characters.splice(at..end, piece.iter().copied());
        }
        let text: String = characters.into_iter().collect();
        println!("seed {seed}");
        (0..3).for_each(|_| ask(&text, rng.usize(..text.len() + 1)));
    }
}
