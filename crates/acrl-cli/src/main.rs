//! The `acrl` program; all of it is in the library, so that the Python package can be the same program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(acrl_cli::main(std::env::args_os()))
}
