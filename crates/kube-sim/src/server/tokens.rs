//! Service account tokens, requested ones and those in secrets.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::ApiServer;
use crate::api::Caller;
use crate::names::{SECRETS, SERVICE_ACCOUNTS};
use crate::object;
use crate::time::Time;

/// The maximum number of tokens; a new one then invalidates the one that expires first.
const MOST: usize = 1000;

/// The requested tokens.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Tokens(BTreeMap<String, Token>);

#[derive(Clone, Serialize, Deserialize)]
struct Token {
    namespace: String,
    account: String,
    uid: String,
    until: Time,
}

/// Tokens are secrets (rule 14).
impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} tokens", self.0.len())
    }
}

impl ApiServer {
    /// Creates a token for an existing service account.
    pub(super) fn make_token(&mut self, namespace: &str, account: &str, until: Time) -> String {
        let now = self.store.now();
        let tokens = &mut self.tokens.0;
        tokens.retain(|_, token| token.until > now);
        if tokens.len() >= MOST
            && let Some(first) = tokens.iter().min_by_key(|(_, token)| token.until)
        {
            let first = first.0.clone();
            tokens.remove(&first);
        }
        let found = self.store.get(&SERVICE_ACCOUNTS, namespace, account);
        let uid = found.map(|found| object::uid(found).to_owned()).unwrap_or_default();
        let made = format!("token-{}", self.store.random.uuid());
        let (namespace, account) = (namespace.to_owned(), account.to_owned());
        self.tokens.0.insert(made.clone(), Token { namespace, account, uid, until });
        made
    }

    /// The service account of a token.
    pub fn account_of(&self, token: &str) -> Option<Caller> {
        if let Some(known) = self.tokens.0.get(token) {
            let Token { namespace, account, uid, until } = known;
            let found = self.store.get(&SERVICE_ACCOUNTS, namespace, account)?;
            let valid = *until > self.store.now() && object::uid(found) == uid;
            return valid.then(|| caller(namespace, account));
        }
        let encoded = STANDARD.encode(token);
        let secret = self.store.list(&SECRETS, None).find(|secret| {
            object::text(secret, &["type"]) == "kubernetes.io/service-account-token"
                && object::text(secret, &["data", "token"]) == encoded
        })?;
        let name = object::annotation(secret, "kubernetes.io/service-account.name")?;
        Some(caller(object::namespace(secret), name))
    }
}

fn caller(namespace: &str, account: &str) -> Caller {
    Caller {
        user: format!("system:serviceaccount:{namespace}:{account}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
    }
}
