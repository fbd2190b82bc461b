//! TLS towards a database server, in the meanings of `sslmode`.
//!
//! `verify-full` checks certificate and name against the public authorities and `sslrootcert`; `require`
//! does so only where an `sslrootcert` was given, as PostgreSQL's own clients do; otherwise the connection
//! is encrypted and the other side is not proven.

use std::sync::Arc;

use reach_core::Problem;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::place::{Encryption, Server};

/// The client side of TLS for one server.
pub(super) fn client(server: &Server) -> Result<ClientConfig, Problem> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let broken =
        |message: &str| Problem::new("/database", message, "name a file of certificates in PEM form in sslrootcert");
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| broken("TLS cannot be set up"))?;
    let verified = match server.encryption {
        Encryption::VerifyFull => true,
        Encryption::Disable | Encryption::Prefer | Encryption::Require => server.roots.is_some(),
    };
    if !verified {
        let verifier = Arc::new(Unproven(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = &server.roots {
        let certificates = CertificateDer::pem_file_iter(file).map_err(|_| broken("sslrootcert cannot be read"))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|_| broken("sslrootcert holds something that is no certificate"))?;
            roots.add(certificate).map_err(|_| broken("sslrootcert holds a certificate that cannot be used"))?;
        }
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|_| broken("sslrootcert holds no certificate"))?;
    Ok(builder.with_webpki_verifier(verifier).with_no_client_auth())
}

/// Accepts any certificate, but only from a side that holds its key.
#[derive(Debug)]
struct Unproven(Arc<CryptoProvider>);

impl ServerCertVerifier for Unproven {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
