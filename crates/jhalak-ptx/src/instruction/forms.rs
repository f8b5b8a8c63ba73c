//! The table in which a family lists its builder methods.

/// First comes the heading that the methods have in the documentation. One line per form: `name, name_to(inputs) -> output = |d| data;` makes two methods of
/// [`KernelBuilder`](crate::KernelBuilder). `name` writes a new register and returns it; `name_to`
/// writes a register that exists, which accumulators and loop variables need. Inputs are registers
/// or constants.
macro_rules! forms {
    ($heading:literal; $($(#[$doc:meta])* $name:ident, $name_to:ident($($input:ident: $class:ty),*) -> $output:ty
        = |$d:ident| $form:expr;)*) => {
        #[doc = concat!("# ", $heading)]
        impl $crate::KernelBuilder {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(
                &mut self,
                $($input: impl Into<$crate::Source<$class>>),*
            ) -> $output {
                let d: $output = self.register();
                self.$name_to(d, $($input),*);
                d
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), "), written to `d`.")]
            #[track_caller]
            pub fn $name_to(
                &mut self,
                d: $output,
                $($input: impl Into<$crate::Source<$class>>),*
            ) {
                let $d = $crate::register::Register::from(d);
                $(let $input = $input.into().operand;)*
                self.push($form);
            }
        )*}
    };
}

pub(crate) use forms;
