//! The border to the terminal: the standard macros for printing, which here show what acts on terminals
//! as escapes, wherever a text comes from (a peer's error, a name, a request, a program's source).
//!
//! JSON that is printed with them stays JSON with the same meaning. What is coloured on purpose is
//! printed with `std`'s.

macro_rules! print {
    ($($part:tt)*) => { ::std::print!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! println {
    () => { ::std::println!() };
    ($($part:tt)*) => { ::std::println!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}

macro_rules! eprintln {
    ($($part:tt)*) => { ::std::eprintln!("{}", ::hawser::lang::Printable(::std::format_args!($($part)*))) };
}
