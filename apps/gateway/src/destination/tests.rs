//! Tests of allowed destinations: rows of IANA's registries, and rules.

use super::*;

fn destination(text: &str) -> Destination {
    Destination::parse(text).expect(text)
}

fn allow(rules: &[&str]) -> AllowList {
    AllowList::parse(rules.iter().copied()).expect("rules")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// Returns the table's word for a result of [`check`].
fn verdict(result: Result<(), Refusal>) -> &'static str {
    let class = match result {
        Ok(()) => return "allowed",
        Err(Refusal::NoRule) => return "no rule",
        Err(Refusal::Special { class, .. }) => class,
    };
    match class {
        Class::Unspecified => "unspecified",
        Class::Loopback => "loopback",
        Class::Private => "private",
        Class::Shared => "shared",
        Class::LinkLocal => "link-local",
        Class::Metadata => "metadata",
        Class::Multicast => "multicast",
        Class::Broadcast => "broadcast",
        Class::Documentation => "documentation",
        Class::Benchmarking => "benchmarking",
        Class::Mapped => "mapped",
        Class::LocalTranslation => "local-translation",
        Class::Reserved => "reserved",
        Class::Own => "own",
    }
}

/// Returns the rows of the table: address, global reachability, verdict, and whether there is a comment.
fn rows() -> impl Iterator<Item = (IpAddr, &'static str, &'static str, bool)> {
    include_str!("special-purpose.txt").lines().filter_map(|line| {
        let (row, reason) = line.split_once('#').unwrap_or((line, ""));
        let mut words = row.split_ascii_whitespace();
        let block = words.next()?;
        let address = ip(block.split_once('/').expect("a block").0);
        Some((
            address,
            words.next().expect(line),
            words.next().expect(line),
            !reason.is_empty(),
        ))
    })
}

#[test]
fn special_addresses_match_the_iana_registries() {
    let public = allow(&["public"]);
    assert!(rows().count() > 100);
    for (address, reachable, expected, has_reason) in rows() {
        let by_address = Destination::from(std::net::SocketAddr::new(address, 443));
        for asked in [by_address, destination("some.name.example:443")] {
            assert_eq!(
                verdict(check(&asked, address, &public, &[], &[])),
                expected,
                "{asked} at {address}"
            );
        }
        let agrees = match reachable {
            "yes" => expected == "allowed",
            "no" => expected != "allowed",
            _ => true,
        };
        assert!(
            agrees || has_reason,
            "{address} departs from the registry, and gives no reason"
        );
    }
}

/// A rule for a name does not cover the addresses to which it resolves: special addresses stay closed.
#[test]
fn a_rule_for_a_name_does_not_open_special_addresses() {
    let named = allow(&[
        "*.name.example:*",
        "some.name.example:443",
        "0.0.0.0/0:*",
        "[::/0]:*",
    ]);
    for (address, _, expected, _) in rows() {
        let found = verdict(check(
            &destination("some.name.example:443"),
            address,
            &named,
            &[],
            &[],
        ));
        assert_eq!(found, expected, "{address}");
    }
}

#[test]
fn a_special_address_needs_a_rule_within_its_special_range() {
    let cases = [
        ("10.1.2.3", "10.0.0.0/8:80", true),
        ("10.1.2.3", "10.1.2.3:80", true),
        ("10.1.2.3", "8.0.0.0/5:80", false),
        ("10.1.2.3", "0.0.0.0/0:*", false),
        ("10.1.2.3", "10.0.0.0/8:81-90", false),
        ("10.1.2.3", "[::ffff:10.0.0.0/104]:80", false),
        ("127.0.0.1", "127.0.0.0/8:*", true),
        ("127.0.0.1", "127.0.0.0/7:*", false),
        ("169.254.7.7", "169.254.0.0/16:*", true),
        ("169.254.169.254", "169.254.0.0/16:*", false),
        ("169.254.169.254", "169.254.169.254:*", true),
        ("fd00:ec2::254", "[fc00::/7]:*", false),
        ("fd00::1", "[fc00::/7]:*", true),
        ("::ffff:10.0.0.1", "10.0.0.0/8:*", false),
        ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:*", true),
        ("::ffff:10.0.0.1", "[::ffff:0:0/96]:*", false),
        ("::ffff:93.184.216.34", "[::ffff:0:0/96]:*", true),
        ("64:ff9b:1::7f00:1", "[64:ff9b:1::/48]:*", false),
        ("64:ff9b:1::5db8:d822", "[64:ff9b:1::/48]:*", true),
        ("64:ff9b::a00:1", "10.0.0.0/8:*", false),
        ("64:ff9b::a00:1", "[64:ff9b::/96]:*", false),
        ("64:ff9b::a00:1", "[64:ff9b::a00:1]:*", true),
        ("10.1.2.3", "public", false),
        ("10.1.2.3", "inside.example:80", false),
    ];
    for (address, rule, expected) in cases {
        let found = check(
            &destination("inside.example:80"),
            ip(address),
            &allow(&[rule]),
            &[],
            &[],
        );
        assert_eq!(found.is_ok(), expected, "{address} by {rule}");
    }
}

#[test]
fn rules_allow_only_listed_destinations() {
    let rules = &[
        "example.com:443",
        "*.example.org:*",
        "8.8.8.0/24:80-90",
        "[2600::/16]:53",
    ];
    let cases = [
        ("example.com:443", "93.184.216.34", true),
        ("EXAMPLE.com.:443", "93.184.216.34", true),
        ("example.com:80", "93.184.216.34", false),
        ("www.example.com:443", "93.184.216.34", false),
        ("notexample.com:443", "93.184.216.34", false),
        ("a.example.org:1", "93.184.216.34", true),
        ("a.b.example.org:65535", "93.184.216.34", true),
        ("example.org:80", "93.184.216.34", false),
        ("badexample.org:80", "93.184.216.34", false),
        ("8.8.8.8:80", "8.8.8.8", true),
        ("8.8.8.8:90", "8.8.8.8", true),
        ("8.8.8.8:91", "8.8.8.8", false),
        ("8.8.9.8:80", "8.8.9.8", false),
        ("whoever.example:85", "8.8.8.1", true),
        ("[2600::1]:53", "2600::1", true),
        ("[2601::1]:53", "2601::1", false),
        ("93.184.216.34:443", "93.184.216.34", false),
    ];
    for (asked, address, expected) in cases {
        let found = check(&destination(asked), ip(address), &allow(rules), &[], &[]);
        assert_eq!(found.is_ok(), expected, "{asked} at {address}");
    }
    let nothing = AllowList::default();
    assert!(nothing.is_empty());
    let found = check(
        &destination("example.com:443"),
        ip("93.184.216.34"),
        &nothing,
        &[],
        &[],
    );
    assert_eq!(found, Err(Refusal::NoRule), "deny by default");
}

#[test]
fn a_name_no_rule_could_allow_is_not_resolved() {
    let list = allow(&["example.com:443", "*.example.org:*"]);
    for (asked, expected) in [
        ("example.com:443", true),
        ("example.com:444", false),
        ("secret.attacker.example:443", false),
        ("x.example.org:9", true),
        ("93.184.216.34:443", false),
    ] {
        let asked = destination(asked);
        assert_eq!(list.may_allow(asked.host(), asked.port()), expected, "{asked}");
    }
    assert!(allow(&["public:80"]).may_allow(destination("a.example:80").host(), 80));
    assert!(!allow(&["public:80"]).may_allow(destination("a.example:81").host(), 81));
}

/// The address itself, and its forms by translation and by tunnel.
#[test]
fn the_gateways_own_addresses_need_a_rule_of_their_own() {
    let own = [
        ip("93.184.216.34"),
        ip("2606:2800::1"),
        ip("10.0.0.1"),
        ip("127.0.0.1"),
    ];
    let public = allow(&["public", "93.184.216.0/24:*", "10.0.0.0/8:*", "127.0.0.0/8:*"]);
    let cases = [
        ("93.184.216.34", "own"),
        ("2606:2800::1", "own"),
        ("64:ff9b::5db8:d822", "own"),
        ("2002:5db8:d822::1", "own"),
        ("::ffff:93.184.216.34", "own"),
        ("10.0.0.1", "own"),
        ("10.0.0.2", "allowed"),
        ("127.0.0.1", "allowed"),
        ("93.184.216.35", "allowed"),
    ];
    for (address, expected) in cases {
        let asked = destination("mirror.example:80");
        assert_eq!(
            verdict(check(&asked, ip(address), &public, &own, &[])),
            expected,
            "{address}"
        );
    }
    let exact = allow(&["93.184.216.34:80"]);
    assert!(
        check(
            &destination("mirror.example:80"),
            ip("93.184.216.34"),
            &exact,
            &own,
            &[]
        )
        .is_ok()
    );
}

#[test]
fn invalid_rules_are_refused_with_the_reason() {
    for (rule, why) in [
        ("example.com", "a colon precedes the ports"),
        ("2001:db8::1:80", "a colon precedes the ports"),
        ("example.com:0", "ports are"),
        ("example.com:90-80", "ports are"),
        ("example.com:http", "ports are"),
        ("192.0.2.0/33:80", "at most 32"),
        ("[2001:db8::/129]:80", "or 128"),
        ("example.com/8:80", "is not an address"),
        ("*.192.0.2.1:80", "an address has no subdomains"),
        ("a..b:80", "labels"),
        ("*:80", "letters"),
        ("w*.example.com:80", "letters"),
        ("", "a colon precedes the ports"),
    ] {
        let error = AllowList::parse([rule]).expect_err(rule).to_string();
        assert!(error.contains(why) && error.contains(rule), "{rule}: {error}");
    }
    let file = "# what there is\nexample.com:443 # the shop\n\npublic:80\n";
    assert_eq!(AllowList::parse_file(file).expect("rules").rules_len(), 2);
}

/// RFC 7050: a network may have a prefix of its own, of any length, instead of 64:ff9b::/96.
#[test]
fn addresses_behind_the_networks_translator_are_checked() {
    let prefix = |text: &str, length| Prefix::from_address(text.parse().expect(text), length).expect(text);
    let nat64 = [prefix("2606:64::", 96), prefix("fd64:ff9b:1:2::", 64)];
    let public = allow(&["public", "[fc00::/7]:*"]);
    let own = [ip("93.184.216.34")];
    for (address, expected) in [
        ("2606:64::7f00:1", "loopback"),
        ("2606:64::a9fe:a9fe", "metadata"),
        ("2606:64::a00:1", "private"),
        ("2606:64::5db8:d822", "own"),
        ("2606:64::5db8:d823", "allowed"),
        // 127.0.0.1 and 93.184.216.35 in the layout of RFC 6052, 2.2.
        ("fd64:ff9b:1:2:7f:0:100:0", "loopback"),
        ("fd64:ff9b:1:2:5d:b8d8:2300:0", "allowed"),
    ] {
        let asked = destination("some.name.example:80");
        assert_eq!(
            verdict(check(&asked, ip(address), &public, &own, &nat64)),
            expected,
            "{address}"
        );
    }
    let exact = allow(&["[2606:64::7f00:1]:80"]);
    assert!(
        check(
            &destination("a.example:80"),
            ip("2606:64::7f00:1"),
            &exact,
            &own,
            &nat64
        )
        .is_ok()
    );
}
