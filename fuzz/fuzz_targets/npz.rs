//! Reads any bytes as an `.npz` file. A model that is read can be written, and read again unchanged.
#![no_main]

use std::io::Cursor;

use acrl_exact::npz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match npz::read(Cursor::new(bytes)) {
        Ok(model) => match npz::read(Cursor::new(npz::write(&model))) {
            Ok(again) => {
                assert_eq!((model.states(), model.choice_count()), (again.states(), again.choice_count()))
            }
            Err(e) => panic!("a written model cannot be read: {e}"),
        },
        Err(e) => assert!(!e.message.is_empty() && !e.to_string().contains(char::is_control), "{e:?}"),
    }
});
