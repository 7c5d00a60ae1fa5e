//! The table of services: each row something that a server answers and a client asks, each in a
//! file of its own.
//!
//! A file holds both halves of its protocol: how a request is answered ([`Responder`]) and how one
//! is asked and its answer checked ([`Requester`]). How bytes become requests is [`Framing`].

pub use crate::service::{
    Cut, Framing, MOST_ANSWER_BYTES, MOST_REQUEST_BYTES, Requester, Responder, Service,
    ServiceFacts, ServiceSetup, TOO_LONG,
};

mod echo;
mod fixed;
pub mod top;

/// All services, in the order of the documentation.
pub const SERVICES: &[Service] = &[top::SERVICE, echo::SERVICE, fixed::SERVICE];

impl Service {
    /// The row of that name.
    pub fn named(name: &str) -> Option<&'static Service> {
        SERVICES.iter().find(|s| s.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_host::Roots;

    #[test]
    fn messages_are_cut_where_they_end() {
        let long = vec![b'x'; MOST_REQUEST_BYTES + 1];
        let mut just = long[1..].to_vec();
        just[MOST_REQUEST_BYTES - 1] = b'\n';
        let check = |framing: Framing, bytes: &[u8], seen, expected| {
            assert_eq!(framing.cut(bytes, seen), expected);
        };
        check(Framing::Line, b"", 0, Cut::Part);
        check(Framing::Line, b"to", 0, Cut::Part);
        check(Framing::Line, b"\n", 0, Cut::Whole(1));
        check(Framing::Line, b"top\ntop\n", 0, Cut::Whole(4));
        check(Framing::Line, b"top\n", 3, Cut::Whole(4));
        check(Framing::Line, b"top", 9, Cut::Part);
        check(Framing::Line, &just, 0, Cut::Whole(MOST_REQUEST_BYTES));
        check(Framing::Line, &long, 0, Cut::TooLong);
        check(
            Framing::Line,
            &long[1..],
            MOST_REQUEST_BYTES - 1,
            Cut::TooLong,
        );
        check(Framing::Size(3), b"to", 0, Cut::Part);
        check(Framing::Size(3), b"top\n", 2, Cut::Whole(3));
    }

    /// Every service answers its own questions, and knows a wrong answer.
    #[test]
    fn questions_and_answers_fit() {
        for service in SERVICES {
            let sizes = service.sizes.map_or(vec![0], |(a, b)| vec![a, 64, 5000, b]);
            for size in sizes.into_iter().map(|size| size as usize) {
                let setup = ServiceSetup {
                    size,
                    roots: Roots::real(),
                };
                let (mut answers, asks) = ((service.open)(&setup), (service.question)(&setup));
                let (mut request, mut answer) = (Vec::new(), Vec::new());
                asks.ask(3, 7, &mut request);
                let whole = (service.request)(size).cut(&request, 0);
                assert_eq!(whole, Cut::Whole(request.len()), "{}", service.name);
                answers.answer(&request, &mut answer);
                match (service.answer)(size) {
                    Framing::Line => assert_eq!(
                        answer.iter().position(|b| *b == b'\n'),
                        Some(answer.len() - 1)
                    ),
                    Framing::Size(size) => {
                        assert_eq!(answer.len(), size, "{}", service.name);
                        let half = size / 2;
                        assert!(asks.is_right(3, 7, half, &answer[half..]));
                    }
                }
                assert!(asks.is_right(3, 7, 0, &answer), "{} {size}", service.name);
                let last = answer.len() - 1;
                answer[last] ^= 1;
                assert!(!asks.is_right(3, 7, 0, &answer), "{} {size}", service.name);
                assert!(!asks.is_right(3, 7, 0, TOO_LONG), "{} {size}", service.name);
            }
        }
    }

    #[test]
    fn sizes_have_bounds() {
        let echo = Service::named("echo").unwrap();
        assert_eq!(echo.check_size(64), Ok(()));
        let error = echo.check_size(MOST_REQUEST_BYTES + 1).unwrap_err();
        assert_eq!(
            error,
            "size `65537` is out of bounds for echo: 1 to 65536 bytes"
        );
        assert_eq!(Service::named("top").unwrap().check_size(0), Ok(()));
        assert!(Service::named("tip").is_none());
    }
}
