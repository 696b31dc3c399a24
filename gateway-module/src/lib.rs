//! Two HTTP filters for the gateway's Envoy: `front` for requests, and `backend` for each attempt at one.
//!
//! The contract with the control plane, which writes the files, is in `README.md`.

use std::ffi::c_char;

mod abi;
mod answer;
mod backend;
mod config;
mod counters;
mod credentials;
mod direct;
mod endpoint;
mod errors;
mod events;
mod filter;
mod front;
mod global_limits;
mod head;
mod hold;
mod keys;
mod limits;
mod load_report;
mod mean;
mod measured;
mod memory;
mod models;
mod multipart;
mod names;
mod observed;
mod order;
mod outstanding;
mod paths;
mod prefix;
mod prompt;
mod record;
mod regions;
mod scan;
mod services;
mod structs;
mod usage;
mod watch;

#[cfg(test)]
mod backend_tests;
#[cfg(test)]
mod direct_tests;
#[cfg(test)]
mod front_tests;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod hold_tests;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod measured_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod stand_in;

/// Tell Envoy the version of the ABI; called once, before anything else.
#[expect(unsafe_code, reason = "Envoy finds it by this name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    memory::give_back_code();
    abi::offer(&[
        ("front", |setup, text| Ok(Box::new(front::FrontFactory::new(setup, text)?))),
        ("backend", |setup, text| Ok(Box::new(backend::BackendFactory::new(setup, text)?))),
    ])
}
