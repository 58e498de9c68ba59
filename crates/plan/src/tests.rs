mod agreement;
mod cases;
mod support;
