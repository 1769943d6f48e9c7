resource "terraform_data" "keep" { input = "keep" }
resource "terraform_data" "grow" { input = 50 }
resource "terraform_data" "swap" { triggers_replace = ["b"] }
resource "terraform_data" "swap_first" {
  triggers_replace = ["b"]
  lifecycle { create_before_destroy = true }
}
resource "terraform_data" "new_name" { input = "x" }
moved {
  from = terraform_data.old_name
  to   = terraform_data.new_name
}
removed {
  from = terraform_data.left
  lifecycle { destroy = false }
}
resource "terraform_data" "adopted" {}
import {
  to = terraform_data.adopted
  id = "f3b1c2d4-0000-4000-8000-000000000001"
}
module "m" {
  source   = "./m"
  for_each = toset(["a", "b"])
}
data "terraform_remote_state" "other" {
  backend    = "local"
  depends_on = [terraform_data.grow]
  config     = { path = "${path.module}/terraform.tfstate" }
}
output "size" { value = terraform_data.grow.output }
