//! TLS for [`Builder::connect_with`](crate::Builder::connect_with), by the features `rustls` and
//! `native-tls`. The server's certificate, and the name in it, are verified whatever `sslmode` is.
//! `sslmode=require` refuses a server without TLS.

#[cfg(feature = "native-tls")]
use ::native_tls::{Certificate, TlsConnector};
#[cfg(feature = "rustls")]
use ::rustls::pki_types::{CertificateDer, pem::PemObject};
#[cfg(feature = "rustls")]
use ::rustls::{ClientConfig, RootCertStore, crypto::ring};
#[cfg(feature = "native-tls")]
pub use postgres_native_tls::MakeTlsConnector;
#[cfg(feature = "rustls")]
pub use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;
use crate::server::unreachable;

/// A connector of rustls. It trusts the certificates in `pem`, or without them those that the
/// system trusts.
///
/// # Errors
/// [`Error::Unreachable`]: a certificate cannot be read.
#[cfg(feature = "rustls")]
pub fn rustls(pem: Option<&[u8]>) -> Result<MakeRustlsConnect, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in pem.map(CertificateDer::pem_slice_iter).into_iter().flatten() {
        let certificate = certificate.map_err(|error| unreachable(&error))?;
        roots.add(certificate).map_err(|error| unreachable(&error))?;
    }
    if pem.is_none() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| unreachable(&error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// A connector of the system's library, on Linux OpenSSL. It trusts the certificate in `pem`, or
/// without it those that the system trusts.
///
/// # Errors
/// [`Error::Unreachable`]: the certificate cannot be read.
#[cfg(feature = "native-tls")]
pub fn native_tls(pem: Option<&[u8]>) -> Result<MakeTlsConnector, Error> {
    let mut builder = TlsConnector::builder();
    if let Some(pem) = pem {
        let certificate = Certificate::from_pem(pem).map_err(|error| unreachable(&error))?;
        builder.disable_built_in_roots(true).add_root_certificate(certificate);
    }
    Ok(MakeTlsConnector::new(builder.build().map_err(|error| unreachable(&error))?))
}
