//! What the hub's API server says when it says no, in a line.

/// An error without the whole of the server's answer.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(answer) => {
            format!("the API server answers {} {}: {}", answer.code, answer.reason, answer.message)
        }
        // What is behind it is in its source.
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(behind) = source {
                let words = behind.to_string();
                if !text.contains(&words) {
                    text = format!("{text}: {words}");
                }
                source = behind.source();
            }
            text
        }
    }
}
