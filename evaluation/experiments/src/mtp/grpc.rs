//! Calls by gRPC. The client and server are tonic's own, as in an application, but messages are plain bytes
//! in place of Protocol Buffers.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use hawser::host::linux_tcp;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use super::calls::{CONGESTION_CONTROL, Calls, Made, PORT, READY, check, message};
use crate::Error;

/// The path of the only method.
const PATH: &str = "/hawser.Echo/Call";
/// The longest duration of a call.
const DEADLINE: Duration = Duration::from_secs(30);

/// A codec that leaves messages as plain bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A method that answers a call with the call's own bytes.
#[derive(Clone, Copy, Debug)]
struct Echo;

impl Service<Request<Bytes>> for Echo {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// The service that handles each HTTP request of the server.
#[derive(Clone, Copy, Debug)]
struct Method;

impl Service<http::Request<tonic::body::Body>> for Method {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move { Ok(tonic::server::Grpc::new(Plain).unary(Echo, request).await) })
    }
}

/// Opens connections with the same congestion control as the other carriers.
#[derive(Clone, Copy, Debug)]
struct Connector(SocketAddr);

impl Service<http::Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = Error;
    type Future = BoxFuture<Self::Response, Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let server = self.0;
        Box::pin(async move {
            let stream = TcpStream::connect(server).await?;
            linux_tcp::set_congestion_control(&stream, CONGESTION_CONTROL)?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

/// Makes a runtime with one thread, like the other ends.
fn runtime() -> Result<Runtime, Error> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Serves calls. It does not return; its parent ends the process.
pub(super) fn serve(own: IpAddr) -> Result<(), Error> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(SocketAddr::new(own, PORT)).await?;
        linux_tcp::set_congestion_control(&listener, CONGESTION_CONTROL)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        println!("{READY}");
        Server::builder().serve_with_incoming(Method, incoming).await?;
        Ok(())
    })
}

pub(super) fn call(calls: &Calls) -> Result<Made, Error> {
    let server = SocketAddr::new(calls.server, PORT);
    let message = Bytes::from(message(calls.size));
    runtime()?.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{server}"))?
            .connect_with_connector(Connector(server))
            .await?;
        let mut client = Grpc::new(channel);
        let mut made = Made::default();
        for number in 0..calls.warm_up + calls.count {
            let begin = Instant::now();
            let reply = tokio::time::timeout(DEADLINE, once(&mut client, message.clone())).await;
            let took = begin.elapsed().as_nanos() as u64;
            match reply {
                Ok(reply) => check(&reply?, &message)?,
                Err(_) if number < calls.warm_up => continue,
                Err(_) => {
                    made.failed += 1;
                    continue;
                }
            }
            if number >= calls.warm_up {
                made.times.push(took);
            }
        }
        Ok(made)
    })
}

async fn once(client: &mut Grpc<Channel>, message: Bytes) -> Result<Bytes, Error> {
    client.ready().await?;
    let path = PathAndQuery::from_static(PATH);
    let reply = client.unary(Request::new(message), path, Plain).await?;
    Ok(reply.into_inner())
}
