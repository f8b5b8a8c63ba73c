//! Every instruction form: its text, and the targets and versions of PTX that have it.
//!
//! A form is one row of a table, so that other judges (ptxas, for one) can walk the same rows.

mod atomic;
mod case;
mod compare;
mod convert;
mod copy;
mod float;
mod integer;
mod matrix;
mod mbarrier;
mod memory;
mod moves;
mod packed;
mod synchronisation;
mod warp;
mod wgmma;

use case::Form;
use jhalak_ptx::{Error, Target};

/// All rows of all families.
fn forms() -> Vec<Form> {
    [
        integer::forms(),
        float::forms(),
        packed::forms(),
        convert::forms(),
        compare::forms(),
        moves::forms(),
        warp::forms(),
        memory::forms(),
        atomic::forms(),
        synchronisation::forms(),
        copy::forms(),
        matrix::forms(),
        wgmma::forms(),
        mbarrier::forms(),
    ]
    .concat()
}

#[test]
fn every_form_has_its_text_and_its_lowest_version_on_every_target_that_has_it() {
    for form in forms() {
        for (target, version) in form.versions() {
            let Some(version) = version else { continue };
            let module = form.module(target).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(case::body(&module), form.text, "on {target}");
            assert_eq!(module.version().to_string(), version, "{} on {target}", form.text);
        }
    }
}

#[test]
fn every_form_is_refused_by_targets_that_lack_it() {
    for form in forms() {
        for (target, version) in form.versions() {
            if version.is_some() {
                continue;
            }
            let oldest = form.versions().find(|(_, version)| version.is_some());
            match form.module(target) {
                Err(Error::Unsupported { needs, instruction, .. }) => {
                    assert_eq!(Some(needs), oldest.map(|(target, _)| target), "{instruction}");
                }
                other => panic!("{} on {target}: {other:?}", form.text),
            }
        }
    }
}

#[test]
fn the_newest_target_has_every_form() {
    for form in forms() {
        assert!(form.module(Target::Sm90a).is_ok(), "{}", form.text);
    }
}
