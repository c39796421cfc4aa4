//! The border to the terminal: the standard macros for printing, which here show what acts on terminals
//! as escapes, wherever a text comes from (a peer's error, a name, a request, a program's source).
//!
//! `println!` and `eprintln!` print one line, whatever is in it: a line feed is shown as an escape, too, so that
//! nobody's text passes for a line of ours. What has several lines is printed with `print!` and `eprint!`.
//!
//! JSON that is printed with them stays JSON with the same meaning. What is coloured on purpose is
//! printed with `std`'s.

macro_rules! print {
    ($($part:tt)*) => { ::std::print!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! eprint {
    ($($part:tt)*) => { ::std::eprint!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! println {
    () => { ::std::println!() };
    ($($part:tt)*) => { ::std::println!("{}", ::hawser::lang::OneLine(::std::format_args!($($part)*))) };
}

macro_rules! eprintln {
    ($($part:tt)*) => { ::std::eprintln!("{}", ::hawser::lang::OneLine(::std::format_args!($($part)*))) };
}
